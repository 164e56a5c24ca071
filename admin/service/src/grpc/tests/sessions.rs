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
async fn a_session_that_is_used_is_valid_for_8_hours() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let ann = token(&shop, "ann", Role::Admin).await;
    let session = open(&mut admin, &ann).await;
    assert_eq!(session.operator.unwrap().name, "ann");
    assert_eq!(session.ttl.unwrap().seconds, 8 * 3_600);

    admin.create_account(with(&session.token, new_account("acme"))).await.unwrap();
    let event = events(&mut local(&shop)).await.remove(0);
    assert_eq!((event.operator.as_str(), event.client_address.as_str()), ("ann", "192.0.2.7"));

    for _ in 0..8 {
        assert_eq!(whose(&mut admin, &session.token).await, Ok("ann".to_owned()));
        shop.hand.advance(Duration::from_hours(1).checked_sub(MILLISECOND).unwrap());
    }
    assert_eq!(whose(&mut admin, &session.token).await, Ok("ann".to_owned()));
    shop.hand.advance(8 * MILLISECOND);
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
async fn every_sign_in_and_every_sign_out_leaves_its_event() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let vera = token(&shop, "vera", Role::Viewer).await;
    for _ in 0..3 {
        let session = open(&mut admin, &vera).await.token;
        for _ in 0..2 {
            let _ = admin.end_session(with(&session, pb::EndSessionRequest {})).await;
        }
    }
    let events = events(&mut local(&shop)).await;
    let found: Vec<_> = events.iter().map(|event| event.action.as_str()).collect();
    assert_eq!(found[..6], ["EndSession", "CreateSession"].repeat(3));
    assert_eq!(found.len(), 7, "{found:?}"); // and one for the operator
}

#[tokio::test]
async fn a_session_ends_an_hour_after_its_last_use() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let ann = token(&shop, "ann", Role::Viewer).await;
    let [used, idle] = [open(&mut admin, &ann).await.token, open(&mut admin, &ann).await.token];
    for _ in 0..3 {
        shop.hand.advance(Duration::from_mins(29));
        assert_eq!(whose(&mut admin, &ann).await, Ok("ann".to_owned()), "which is no use of a session");
        assert_eq!(whose(&mut admin, &used).await, Ok("ann".to_owned()));
    }
    assert_eq!(whose(&mut admin, &idle).await, invalid());
    shop.hand.advance(Duration::from_hours(1).checked_sub(MILLISECOND).unwrap());
    assert_eq!(whose(&mut admin, &used).await, Ok("ann".to_owned()));
    shop.hand.advance(Duration::from_hours(1));
    assert_eq!(whose(&mut admin, &used).await, invalid());
}

#[tokio::test]
async fn open_sessions_are_listed_and_ended_by_their_identifiers() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let (ann, vera) = (token(&shop, "ann", Role::Admin).await, token(&shop, "vera", Role::Viewer).await);
    let of_ann = open(&mut admin, &ann).await.token;
    shop.hand.advance(Duration::from_mins(1));
    let of_vera = open(&mut admin, &vera).await.token;
    let listed = admin.list_sessions(with(&vera, pb::ListSessionsRequest {})).await.unwrap();
    let sessions = listed.into_inner().sessions;
    let names: Vec<_> =
        sessions.iter().map(|it| (it.operator.as_str(), it.client_address.as_str())).collect();
    assert_eq!(names, [("vera", "192.0.2.7"), ("ann", "192.0.2.7")]);
    assert_eq!(sessions[0].expire_time.unwrap().seconds - sessions[0].create_time.unwrap().seconds, 3_600);
    assert!(!format!("{sessions:?}").contains(&of_vera[8..20]));

    let end = |session: &pb::Session| pb::RevokeSessionRequest { id: session.id.clone() };
    let refused = admin.revoke_session(with(&vera, end(&sessions[1]))).await.unwrap_err();
    assert_eq!(reason(&refused), "OPERATOR_NOT_PERMITTED");
    for _ in 0..2 {
        admin.revoke_session(with(&ann, end(&sessions[0]))).await.unwrap();
    }
    assert_eq!(whose(&mut admin, &of_vera).await, invalid());
    assert_eq!(whose(&mut admin, &of_ann).await, Ok("ann".to_owned()));
    let events = events(&mut local(&shop)).await;
    let ended: Vec<_> = events.iter().filter(|event| event.action == "RevokeSession").collect();
    assert_eq!(ended.len(), 1, "the second call ended nothing");
    assert_eq!((ended[0].operator.as_str(), ended[0].target_operator.as_str()), ("ann", "vera"));
    let nonsense = pb::RevokeSessionRequest { id: "current".into() };
    assert_eq!(admin.revoke_session(with(&ann, nonsense)).await.unwrap_err().code(), Code::InvalidArgument);
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

#[tokio::test]
async fn a_new_session_lasts_even_if_all_others_expire_later() {
    let shop = Shop::open().await;
    let name = OperatorName::parse("ann").unwrap();
    let created = shop.store.create_operator(&Actor::LOCAL, &name, Role::Admin, None, START).await;
    let (token, actor) = (created.unwrap().1, Actor { operator: name, ..Actor::LOCAL });
    let later = START.plus(Duration::from_hours(7)); // such as sessions of 8 hours
    for _ in 0..50 {
        shop.store.open_session(&actor, &token, later).await.unwrap();
    }
    let new = shop.store.open_session(&actor, &token, START).await.unwrap();
    assert_eq!(whose(&mut remote(&shop), new.expose()).await, Ok("ann".to_owned()));
}
