//! Credentials of operators, and the rights of each role.

use petstore_proto::admin::v1::rotate_operator_request::Expiration;

use super::*;

#[tokio::test]
async fn a_viewer_reads_everything_and_changes_nothing() {
    let shop = Shop::open().await;
    let (mut admin, viewer) = (remote(&shop), token(&shop, "vera", Role::Viewer).await);
    local(&shop).create_account(new_account("acme")).await.unwrap();
    let issued = local(&shop).create_key(new_key("acme")).await.unwrap().into_inner();
    let id = issued.key.unwrap().id;
    let before = events(&mut local(&shop)).await.len();

    let operator = admin.get_current_operator(with(&viewer, pb::GetCurrentOperatorRequest {})).await.unwrap();
    let operator = operator.into_inner().operator.unwrap();
    assert_eq!((operator.name.as_str(), operator.role()), ("vera", pb::Role::Viewer));
    assert!(viewer.ends_with(&operator.last_four));
    let accounts = admin
        .list_accounts(with(&viewer, pb::ListAccountsRequest::default()))
        .await
        .unwrap()
        .into_inner()
        .accounts;
    assert_eq!(accounts.len(), 1);

    let key = || id.clone();
    let refusals = [
        admin.create_account(with(&viewer, new_account("zoo"))).await.map(drop),
        admin
            .update_account(with(&viewer, update("acme", pb::Account::default(), &["plan"])))
            .await
            .map(drop),
        admin.suspend_account(with(&viewer, suspend("acme"))).await.map(drop),
        admin
            .resume_account(with(&viewer, pb::ResumeAccountRequest { account: "acme".into() }))
            .await
            .map(drop),
        admin.create_key(with(&viewer, new_key("acme"))).await.map(drop),
        admin
            .rotate_key(with(&viewer, pb::RotateKeyRequest { key_id: key(), ..Default::default() }))
            .await
            .map(drop),
        admin.revoke_key(with(&viewer, pb::RevokeKeyRequest { key_id: key() })).await.map(drop),
        admin.create_ban(with(&viewer, ban(&id))).await.map(drop),
        admin.lift_ban(with(&viewer, pb::LiftBanRequest { key_id: key() })).await.map(drop),
        admin
            .create_operator(with(
                &viewer,
                pb::CreateOperatorRequest { name: "eve".into(), role: 2, ttl: None },
            ))
            .await
            .map(drop),
        admin
            .rotate_operator(with(
                &viewer,
                pb::RotateOperatorRequest { name: "vera".into(), expiration: None },
            ))
            .await
            .map(drop),
        admin
            .revoke_operator(with(&viewer, pb::RevokeOperatorRequest { name: "vera".into(), force: false }))
            .await
            .map(drop),
    ];
    for refusal in refusals {
        let expected = "operator vera has the role viewer, which may not do this";
        assert_eq!(
            verdict(&refusal.unwrap_err()),
            refused(Code::PermissionDenied, "OPERATOR_NOT_PERMITTED", expected)
        );
    }
    assert_eq!(events(&mut local(&shop)).await.len(), before);
}

#[tokio::test]
async fn only_the_token_of_an_operator_opens_the_service() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let right = token(&shop, "ann", Role::Admin).await;
    let key = ApiKey::generate(petstore_caller::api_key::Environment::Production);
    for wrong in
        ["", "pet_op_", OperatorToken::generate().expose(), key.expose(), &right[1..], &format!("{right}0")]
    {
        let refusal = admin.list_accounts(with(wrong, pb::ListAccountsRequest::default())).await.unwrap_err();
        assert_eq!(
            (refusal.code(), reason(&refusal).as_str()),
            (Code::Unauthenticated, "INVALID_OPERATOR_TOKEN"),
            "{wrong}"
        );
    }
    let nothing = admin.list_accounts(pb::ListAccountsRequest::default()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::Unauthenticated);
    let mut twice = with(&right, pb::ListAccountsRequest::default());
    twice.metadata_mut().append("authorization", format!("Bearer {right}").parse().unwrap());
    assert_eq!(admin.list_accounts(twice).await.unwrap_err().code(), Code::Unauthenticated);

    admin.create_account(with(&right, new_account("acme"))).await.unwrap();
    let event = events(&mut local(&shop)).await.remove(0);
    assert_eq!((event.operator.as_str(), event.client_address.as_str()), ("ann", "192.0.2.7"));
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_and_its_name_stays_taken() {
    let shop = Shop::open().await;
    let (mut admin, first) = (remote(&shop), token(&shop, "ann", Role::Admin).await);
    let second = token(&shop, "bea", Role::Admin).await;
    admin.list_accounts(with(&first, pb::ListAccountsRequest::default())).await.unwrap();
    admin
        .revoke_operator(with(&second, pb::RevokeOperatorRequest { name: "ann".into(), force: false }))
        .await
        .unwrap();
    let refusal = admin.list_accounts(with(&first, pb::ListAccountsRequest::default())).await.unwrap_err();
    assert_eq!(reason(&refusal), "INVALID_OPERATOR_TOKEN");
    let again = pb::CreateOperatorRequest { name: "ann".into(), role: pb::Role::Admin.into(), ttl: None };
    let taken = admin.create_operator(with(&second, again)).await.unwrap_err();
    assert_eq!((taken.code(), reason(&taken).as_str()), (Code::AlreadyExists, "OPERATOR_EXISTS"));
    let listed =
        admin.list_operators(with(&second, pb::ListOperatorsRequest::default())).await.unwrap().into_inner();
    assert_eq!(listed.total_size, Some(2));
    let listed: Vec<_> = listed
        .operators
        .iter()
        .map(|one| (one.name.as_str(), one.revoke_time.is_some(), one.last_use_time.is_some()))
        .collect();
    assert_eq!(listed, [("bea", false, true), ("ann", true, true)]);
}

#[tokio::test]
async fn a_new_token_of_a_revoked_operator_ends_the_old_one_and_its_sessions_and_keeps_the_name() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let (ann, bea) = (token(&shop, "ann", Role::Admin).await, token(&shop, "bea", Role::Admin).await);
    let session = admin.create_session(with(&ann, pb::CreateSessionRequest {})).await.unwrap().into_inner();
    let revoke = pb::RevokeOperatorRequest { name: "ann".into(), force: false };
    admin.revoke_operator(with(&bea, revoke)).await.unwrap();
    let rotate = pb::RotateOperatorRequest { name: "ann".into(), expiration: None };
    let rotated = admin.rotate_operator(with(&bea, rotate)).await.unwrap().into_inner();
    let operator = rotated.operator.unwrap();
    assert_eq!((operator.name.as_str(), operator.revoke_time), ("ann", None));
    assert!(rotated.token.ends_with(&operator.last_four));
    let ask = async |token: &str| {
        let asked = remote(&shop).get_current_operator(with(token, pb::GetCurrentOperatorRequest {})).await;
        asked.map(|answer| answer.into_inner().operator.unwrap().name).map_err(|refusal| reason(&refusal))
    };
    assert_eq!(ask(&rotated.token).await, Ok("ann".to_owned()));
    for old in [&ann, &session.token] {
        assert_eq!(ask(old).await, Err("INVALID_OPERATOR_TOKEN".to_owned()));
    }
    let event = events(&mut local(&shop)).await.remove(0);
    assert_eq!((event.action.as_str(), event.target_operator.as_str()), ("RotateOperator", "ann"));
    let nobody = pb::RotateOperatorRequest { name: "nobody".into(), expiration: None };
    let refusal = admin.rotate_operator(with(&bea, nobody)).await.unwrap_err();
    assert_eq!(reason(&refusal), "OPERATOR_NOT_FOUND");
}

#[tokio::test]
async fn a_token_with_a_lifetime_ends_with_its_sessions_and_is_replaced_only_by_a_stated_one() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let day = prost_types::Duration { seconds: 86_400, nanos: 0 };
    let zero = prost_types::Duration::default();
    let bea = |ttl| pb::CreateOperatorRequest { name: "bea".into(), role: 2, ttl };
    let refused = admin.create_operator(bea(Some(zero))).await.unwrap_err();
    assert_eq!(refused.message(), "ttl must be positive");
    let made = admin.create_operator(bea(Some(day))).await.unwrap().into_inner();
    assert_eq!(made.operator.unwrap().expire_time.unwrap().seconds, 1_800_000_000 + 86_400);
    let mut remote = remote(&shop);
    let mut is_valid = async |token: &str| {
        remote.get_current_operator(with(token, pb::GetCurrentOperatorRequest {})).await.is_ok()
    };
    shop.hand.advance(Duration::from_hours(24).checked_sub(Duration::from_mins(30)).unwrap());
    assert!(is_valid(&made.token).await);
    let session = pb::CreateSessionRequest {};
    let session = super::remote(&shop).create_session(with(&made.token, session)).await.unwrap().into_inner();
    assert!(is_valid(&session.token).await);
    shop.hand.advance(Duration::from_mins(30));
    assert!(!is_valid(&made.token).await && !is_valid(&session.token).await);

    let rotate = |expiration| pb::RotateOperatorRequest { name: "bea".into(), expiration };
    let refused = admin.rotate_operator(rotate(None)).await.unwrap_err();
    assert_eq!(refused.message(), "ttl is required, or never, because the old token expires");
    for wrong in [Expiration::Never(false), Expiration::Ttl(zero)] {
        assert_eq!(
            admin.rotate_operator(rotate(Some(wrong))).await.unwrap_err().code(),
            Code::InvalidArgument
        );
    }
    let next = admin.rotate_operator(rotate(Some(Expiration::Ttl(day)))).await.unwrap().into_inner();
    assert!(is_valid(&next.token).await && next.operator.unwrap().expire_time.is_some());
    let last = admin.rotate_operator(rotate(Some(Expiration::Never(true)))).await.unwrap().into_inner();
    assert_eq!(last.operator.unwrap().expire_time, None);
    shop.hand.advance(Duration::from_hours(48));
    assert!(is_valid(&last.token).await);
}

#[tokio::test]
async fn the_last_admin_and_oneself_are_revoked_only_with_force() {
    let shop = Shop::open().await;
    let (ann, bea) = (token(&shop, "ann", Role::Admin).await, token(&shop, "bea", Role::Admin).await);
    let vera = token(&shop, "vera", Role::Viewer).await;
    let revoke = async |token: Option<&str>, name: &str, force| {
        let request = pb::RevokeOperatorRequest { name: name.into(), force };
        let answer = match token {
            Some(token) => remote(&shop).revoke_operator(with(token, request)).await,
            None => local(&shop).revoke_operator(request).await,
        };
        answer.map(drop).map_err(|refusal| (reason(&refusal), refusal.message().to_owned()))
    };
    let refused = |message: &str| {
        Err(("FORCE_REQUIRED".to_owned(), format!("{message}; send `force: true` to confirm")))
    };
    let own = "ann is you: this revokes your own token and ends your sessions";
    assert_eq!(revoke(Some(&ann), "ann", false).await, refused(own));
    assert_eq!(revoke(Some(&ann), "bea", false).await, Ok(()));
    let last = "ann is the last admin: after this, only `petstore` on the database host can make changes";
    assert_eq!(revoke(Some(&ann), "ann", false).await, refused(last));
    assert_eq!(revoke(None, "ann", false).await, refused(last));
    assert_eq!(revoke(Some(&ann), "vera", false).await, Ok(()));
    assert_eq!(revoke(Some(&ann), "bea", false).await, Ok(()), "it is revoked already");
    assert_eq!(revoke(Some(&ann), "ann", true).await, Ok(()));
    for token in [&ann, &bea, &vera] {
        assert_eq!(revoke(Some(token), "x", true).await.unwrap_err().0, "INVALID_OPERATOR_TOKEN");
    }
}

#[tokio::test]
async fn guesses_of_tokens_lock_out_no_valid_token_or_session() {
    let shop = Shop::open().await;
    let ask = async |token: &str| {
        let asked = remote(&shop).get_current_operator(with(token, pb::GetCurrentOperatorRequest {})).await;
        asked.map(|answer| answer.into_inner().operator.unwrap().name).map_err(|refusal| reason(&refusal))
    };
    let malformed = "pet_op_0000000000000000000000000000000000";
    let mut reasons = std::collections::BTreeMap::new();
    for _ in 0..1_100 {
        *reasons.entry(ask(malformed).await.unwrap_err()).or_insert(0) += 1;
    }
    let expected = [("INVALID_OPERATOR_TOKEN".to_owned(), 10), ("TOO_MANY_ATTEMPTS".to_owned(), 1_090)];
    assert_eq!(reasons, expected.into());
    let ann = token(&shop, "ann", Role::Admin).await; // no core has seen it
    let mut guesses: Vec<_> = (0..200).map(|_| OperatorToken::generate()).collect();
    guesses.push(OperatorToken::generate_session());
    let guessing = futures_util::future::join_all(guesses.iter().map(|guess| ask(guess.expose())));
    let (refused, heard) = tokio::join!(guessing, ask(&ann));
    assert_eq!(heard, Ok("ann".to_owned()));
    assert!(refused.iter().all(|answer| answer == &Err("TOO_MANY_ATTEMPTS".to_owned())));
    let opened = remote(&shop).create_session(with(&ann, pb::CreateSessionRequest {})).await.unwrap();
    assert_eq!(ask(&opened.into_inner().token).await, Ok("ann".to_owned()));
    shop.hand.advance(Duration::from_mins(1));
    assert_eq!(ask(malformed).await, Err("INVALID_OPERATOR_TOKEN".to_owned()));
}
