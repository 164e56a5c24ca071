//! Who may call, and what each role may do.

use super::*;

#[tokio::test]
async fn a_viewer_reads_everything_and_changes_nothing() {
    let shop = Shop::open().await;
    let (mut admin, viewer) = (remote(&shop), token(&shop, "vera", Role::Viewer).await);
    shop.core
        .store()
        .accounts()
        .create(&AccountName::parse("acme").unwrap(), Plan::Free, START)
        .await
        .unwrap();
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
            .create_operator(with(&viewer, pb::CreateOperatorRequest { name: "eve".into(), role: 2 }))
            .await
            .map(drop),
        admin
            .revoke_operator(with(&viewer, pb::RevokeOperatorRequest { name: "vera".into() }))
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
    let key = ApiKey::generate(petstore_api_key::Environment::Production);
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
    admin.revoke_operator(with(&second, pb::RevokeOperatorRequest { name: "ann".into() })).await.unwrap();
    let refusal = admin.list_accounts(with(&first, pb::ListAccountsRequest::default())).await.unwrap_err();
    assert_eq!(reason(&refusal), "INVALID_OPERATOR_TOKEN");
    let again = pb::CreateOperatorRequest { name: "ann".into(), role: pb::Role::Admin.into() };
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
