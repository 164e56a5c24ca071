//! Sessions of operators.

use std::time::Duration;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

async fn open(admin: &mut Admin, token: &str) -> pb::CreateSessionResponse {
    admin.create_session(with(token, pb::CreateSessionRequest {})).await.unwrap().into_inner()
}

/// Returns the operator of a token, or the reason of the refusal.
async fn whose(admin: &mut Admin, token: &str) -> Result<String, String> {
    let answer = admin.get_current_operator(with(token, pb::GetCurrentOperatorRequest {})).await;
    answer.map(|answer| answer.into_inner().operator.unwrap().name).map_err(|refusal| reason(&refusal))
}

fn invalid() -> Result<String, String> {
    Err("INVALID_OPERATOR_TOKEN".to_owned())
}

#[tokio::test]
async fn a_session_is_valid_for_8_hours() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let ann = token(&shop, "ann", Role::Admin).await;
    let session = open(&mut admin, &ann).await;
    assert_eq!(session.operator.unwrap().name, "ann");
    assert_eq!(session.ttl.unwrap().seconds, 8 * 3_600);

    admin.create_account(with(&session.token, new_account("acme"))).await.unwrap();
    let event = events(&mut local(&shop)).await.remove(0);
    assert_eq!((event.operator.as_str(), event.client_address.as_str()), ("ann", "192.0.2.7"));

    shop.hand.advance(Duration::from_hours(8).checked_sub(MILLISECOND).unwrap());
    assert_eq!(whose(&mut admin, &session.token).await, Ok("ann".to_owned()));
    shop.hand.advance(MILLISECOND);
    assert_eq!(whose(&mut admin, &session.token).await, invalid());
    assert_eq!(whose(&mut admin, &ann).await, Ok("ann".to_owned()), "the operator's token goes on");
}

#[tokio::test]
async fn a_session_ends_with_its_operators_token_and_when_it_is_ended() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let (ann, bea) = (token(&shop, "ann", Role::Viewer).await, token(&shop, "bea", Role::Admin).await);
    let [first, second, of_bea] = [
        open(&mut admin, &ann).await.token,
        open(&mut admin, &ann).await.token,
        open(&mut admin, &bea).await.token,
    ];

    admin.end_session(with(&ann, pb::EndSessionRequest {})).await.unwrap();
    assert_eq!(whose(&mut admin, &first).await, Ok("ann".to_owned()), "the token itself ends no session");
    admin.end_session(with(&first, pb::EndSessionRequest {})).await.unwrap();
    assert_eq!(whose(&mut admin, &first).await, invalid());
    assert_eq!(whose(&mut admin, &second).await, Ok("ann".to_owned()), "another session goes on");

    admin
        .revoke_operator(with(&of_bea, pb::RevokeOperatorRequest { name: "ann".into(), force: false }))
        .await
        .unwrap();
    assert_eq!(whose(&mut admin, &second).await, invalid());
    assert_eq!(whose(&mut admin, &of_bea).await, Ok("bea".to_owned()));
}

#[tokio::test]
async fn a_session_has_its_operators_rights_except_opening_another() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let vera = token(&shop, "vera", Role::Viewer).await;
    let session = open(&mut admin, &vera).await.token;
    admin.list_accounts(with(&session, pb::ListAccountsRequest::default())).await.unwrap();
    let refusal = admin.create_account(with(&session, new_account("zoo"))).await.unwrap_err();
    assert_eq!(
        (refusal.code(), reason(&refusal).as_str()),
        (Code::PermissionDenied, "OPERATOR_NOT_PERMITTED")
    );

    let another = admin.create_session(with(&session, pb::CreateSessionRequest {})).await.unwrap_err();
    assert_eq!(
        (another.code(), reason(&another).as_str()),
        (Code::Unauthenticated, "INVALID_OPERATOR_TOKEN")
    );
    let of_nobody = local(&shop).create_session(pb::CreateSessionRequest {}).await.unwrap_err();
    assert_eq!(of_nobody.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn only_an_issued_token_is_a_session() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let ann = token(&shop, "ann", Role::Admin).await;
    let right = open(&mut admin, &ann).await.token;
    let unknown = OperatorToken::generate_session();
    for wrong in ["pet_ses_", unknown.expose(), &right[1..], &format!("{right}0"), &right.to_uppercase()] {
        assert_eq!(whose(&mut admin, wrong).await, invalid(), "{wrong}");
    }
}

#[tokio::test]
async fn sessions_are_in_the_audit_without_their_tokens() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let ann = token(&shop, "ann", Role::Viewer).await;
    let session = open(&mut admin, &ann).await.token;
    admin.end_session(with(&session, pb::EndSessionRequest {})).await.unwrap();
    let events = events(&mut local(&shop)).await;
    let found: Vec<_> = events
        .iter()
        .map(|event| (event.action.as_str(), event.operator.as_str(), event.target_operator.as_str()))
        .collect();
    assert_eq!(found[..2], [("EndSession", "ann", "ann"), ("CreateSession", "ann", "ann")]);
    assert_eq!(events[1].client_address, "192.0.2.7");
    assert_eq!(events[1].after_json, r#"{"expireTime":"2027-01-15T16:00:00Z"}"#);
    assert!(!format!("{events:?}").contains(&session[session.len() - 4..]));
}

#[tokio::test]
async fn any_number_of_sign_ins_leaves_one_event_a_minute() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let vera = token(&shop, "vera", Role::Viewer).await;
    let mut sign_in = async || {
        let session = open(&mut admin, &vera).await.token;
        admin.end_session(with(&session, pb::EndSessionRequest {})).await.unwrap();
    };
    for _ in 0..30 {
        sign_in().await;
        shop.hand.advance(Duration::from_secs(1));
    }
    shop.hand.advance(Duration::from_secs(30));
    sign_in().await;
    let events = events(&mut local(&shop)).await;
    let found: Vec<_> = events.iter().map(|event| event.action.as_str()).collect();
    assert_eq!(found[..4], ["EndSession", "CreateSession", "EndSession", "CreateSession"]);
    assert_eq!(found.len(), 5, "{found:?}"); // and one for the operator
}

#[tokio::test]
async fn an_operators_fifty_first_session_ends_only_their_oldest() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let (ann, bea) = (token(&shop, "ann", Role::Admin).await, token(&shop, "bea", Role::Admin).await);
    let of_bea = open(&mut admin, &bea).await.token;
    let mut sessions = Vec::new();
    for _ in 0..51 {
        shop.hand.advance(Duration::from_secs(1));
        sessions.push(open(&mut admin, &ann).await.token);
    }
    assert_eq!(whose(&mut admin, &sessions[0]).await, invalid());
    for open in [&sessions[1], &sessions[50]] {
        assert_eq!(whose(&mut admin, open).await, Ok("ann".to_owned()));
    }
    assert_eq!(whose(&mut admin, &of_bea).await, Ok("bea".to_owned()));
}
