//! `petstore.admin.v1.AdminService`.

use petstore_api_key::{ApiKey, OperatorToken};
use petstore_proto::admin::v1::{self as pb, admin_service_client::AdminServiceClient};
use serde_json::Value;

use super::*;
use crate::domain::{AccountName, OperatorName, Plan, Role};

mod sessions;

type Admin = AdminServiceClient<Transport>;

/// A client that is the local operator.
fn local(shop: &Shop) -> Admin {
    AdminServiceClient::new(BoxCloneSyncService::new(in_memory_as_local_operator(&shop.core)))
}

/// A client whose calls carry nothing by themselves.
fn remote(shop: &Shop) -> Admin {
    AdminServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)))
}

async fn token(shop: &Shop, name: &str, role: Role) -> String {
    let name = OperatorName::parse(name).unwrap();
    let issued = shop.core.store().operators().create(&name, role, START).await.unwrap();
    issued.token.expose().to_owned()
}

fn with<M>(token: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request.metadata_mut().insert("petstore-client-address", "192.0.2.7".parse().unwrap());
    request
}

fn new_account(name: &str) -> pb::CreateAccountRequest {
    let account = pb::Account { name: name.into(), plan: pb::Plan::Free.into(), ..Default::default() };
    pb::CreateAccountRequest { account: Some(account) }
}

fn new_key(account: &str) -> pb::CreateKeyRequest {
    pb::CreateKeyRequest { account: account.into(), label: "shop floor".into(), ..Default::default() }
}

async fn events(admin: &mut Admin) -> Vec<pb::AuditEvent> {
    let everything = pb::ListAuditEventsRequest { page_size: 100, ..Default::default() };
    admin.list_audit_events(everything).await.unwrap().into_inner().events
}

fn update(account: &str, values: pb::Account, paths: &[&str]) -> pb::UpdateAccountRequest {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    pb::UpdateAccountRequest {
        account: account.into(),
        values: Some(values),
        update_mask: Some(prost_types::FieldMask { paths }),
    }
}

fn ban(key_id: &str) -> pb::CreateBanRequest {
    let hour = prost_types::Duration { seconds: 3_600, nanos: 0 };
    pb::CreateBanRequest {
        key_id: key_id.into(),
        reason: "open invoice".into(),
        end: Some(pb::create_ban_request::End::Duration(hour)),
    }
}

fn suspend(account: &str) -> pb::SuspendAccountRequest {
    pb::SuspendAccountRequest { account: account.into(), reason: "open invoice".into() }
}

/// Makes every change once; the names of the methods, in order, and every secret that was shown.
async fn change_everything(admin: &mut Admin) -> (Vec<&'static str>, Vec<String>) {
    admin.create_account(new_account("acme")).await.unwrap();
    let values = pb::Account { name: "acme-2".into(), plan: pb::Plan::Pro.into(), ..Default::default() };
    admin.update_account(update("acme", values, &["name", "plan"])).await.unwrap();
    let key = admin.create_key(new_key("acme-2")).await.unwrap().into_inner();
    let id = key.key.unwrap().id;
    admin.create_ban(ban(&id)).await.unwrap();
    admin.lift_ban(pb::LiftBanRequest { key_id: id.clone() }).await.unwrap();
    let rotation = pb::RotateKeyRequest { key_id: id.clone(), ..Default::default() };
    let rotated = admin.rotate_key(rotation).await.unwrap().into_inner();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: id }).await.unwrap();
    admin.suspend_account(suspend("acme-2")).await.unwrap();
    admin.resume_account(pb::ResumeAccountRequest { account: "acme-2".into() }).await.unwrap();
    let new = pb::CreateOperatorRequest { name: "bea".into(), role: pb::Role::Viewer.into() };
    let operator = admin.create_operator(new).await.unwrap().into_inner();
    admin.revoke_operator(pb::RevokeOperatorRequest { name: "bea".into() }).await.unwrap();
    let actions = vec![
        "CreateAccount",
        "UpdateAccount",
        "CreateKey",
        "CreateBan",
        "LiftBan",
        "RotateKey",
        "RevokeKey",
        "SuspendAccount",
        "ResumeAccount",
        "CreateOperator",
        "RevokeOperator",
    ];
    (actions, vec![key.api_key, rotated.api_key, operator.token])
}

#[tokio::test]
async fn every_change_leaves_exactly_one_audit_event_and_none_holds_a_secret() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (actions, secrets) = change_everything(&mut admin).await;
    let events = events(&mut admin).await;
    let found: Vec<_> = events.iter().rev().map(|event| event.action.as_str()).collect();
    assert_eq!(found, actions);
    for event in &events {
        assert_eq!((event.operator.as_str(), event.client_address.as_str()), ("local", ""));
        assert_eq!(event.create_time.unwrap().seconds, 1_800_000_000);
        for secret in &secrets {
            let text = format!("{event:?}");
            assert!(!text.contains(&secret[secret.len() - 4..]), "the end of a secret: {text}");
            assert!(!ApiKey::begins_in(&text), "{text}");
        }
    }
    let renamed = &events[events.len() - 2];
    let before: Value = serde_json::from_str(&renamed.before_json).unwrap();
    let after: Value = serde_json::from_str(&renamed.after_json).unwrap();
    assert_eq!((&before["name"], &before["plan"]), (&"acme".into(), &"free".into()));
    assert_eq!((&after["name"], &after["plan"]), (&"acme-2".into(), &"pro".into()));
    assert_eq!((events.last().unwrap().before_json.as_str(), renamed.account.as_str()), ("", "acme"));
}

#[tokio::test]
async fn what_changes_nothing_or_fails_leaves_no_audit_event() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    change_everything(&mut admin).await;
    let before = events(&mut admin).await;
    let key_id = before.iter().find(|event| event.action == "RevokeKey").unwrap().key_id.clone();
    admin.resume_account(pb::ResumeAccountRequest { account: "acme-2".into() }).await.unwrap();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: key_id.clone() }).await.unwrap();
    admin.revoke_operator(pb::RevokeOperatorRequest { name: "bea".into() }).await.unwrap();
    let taken = admin.create_account(new_account("acme-2")).await.unwrap_err();
    assert_eq!(
        verdict(&taken),
        refused(Code::AlreadyExists, "ACCOUNT_EXISTS", "there is already an account acme-2")
    );
    let rotation = pb::RotateKeyRequest { key_id, ..Default::default() };
    let revoked = admin.rotate_key(rotation).await.unwrap_err();
    assert_eq!((revoked.code(), reason(&revoked).as_str()), (Code::FailedPrecondition, "KEY_NOT_ACTIVE"));
    assert_eq!(events(&mut admin).await, before);
}

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
    let listed = admin
        .list_operators(with(&second, pb::ListOperatorsRequest::default()))
        .await
        .unwrap()
        .into_inner()
        .operators;
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.name.as_str(), one.revoke_time.is_some(), one.last_use_time.is_some()))
        .collect();
    assert_eq!(listed, [("ann", true, true), ("bea", false, true)]);
}

#[tokio::test]
async fn accounts_are_found_by_name_plan_and_suspension_page_by_page() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    for name in ["acme-1", "Acme-2", "zoo_1", "zoo-1"] {
        admin.create_account(new_account(name)).await.unwrap();
    }
    let pro = pb::Account { plan: pb::Plan::Pro.into(), ..Default::default() };
    admin.update_account(update("zoo-1", pro, &["plan"])).await.unwrap();
    let suspended = admin.suspend_account(suspend("acme-1")).await.unwrap().into_inner().account.unwrap();
    assert_eq!(suspended.suspend_reason, "open invoice");
    let mut names = async |list: pb::ListAccountsRequest| {
        let (mut names, mut list) = (Vec::new(), pb::ListAccountsRequest { page_size: 1, ..list });
        loop {
            let page = admin.list_accounts(list.clone()).await.unwrap().into_inner();
            assert!(page.accounts.len() <= 1);
            names.extend(page.accounts.into_iter().map(|account| account.name));
            if page.next_page_token.is_empty() {
                return names;
            }
            list.page_token = page.next_page_token;
        }
    };
    let all = pb::ListAccountsRequest::default;
    assert_eq!(names(all()).await, ["acme-1", "Acme-2", "zoo_1", "zoo-1"]);
    let part = |part: &str| pb::ListAccountsRequest { name_contains: part.into(), ..all() };
    assert_eq!(names(part("aCME")).await, ["acme-1", "Acme-2"]);
    assert_eq!(names(part("o_")).await, ["zoo_1"], "no wildcard");
    assert_eq!(names(pb::ListAccountsRequest { plan: pb::Plan::Pro.into(), ..all() }).await, ["zoo-1"]);
    assert_eq!(names(pb::ListAccountsRequest { suspended: Some(true), ..all() }).await, ["acme-1"]);
    assert_eq!(names(pb::ListAccountsRequest { suspended: Some(false), ..part("acme") }).await, ["Acme-2"]);
    let damaged = pb::ListAccountsRequest { page_token: "a.1.0".into(), ..all() };
    assert_eq!(reason(&admin.list_accounts(damaged).await.unwrap_err()), "INVALID_CURSOR");
}

#[tokio::test]
async fn an_update_changes_what_its_mask_names() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let limits = |per_minute, per_day| Some(pb::Limits { per_minute, per_day });
    let mut change = async |values: pb::Account, paths: &[&str]| {
        admin.update_account(update("acme", values, paths)).await.map(|it| it.into_inner().account.unwrap())
    };
    let numbers = |numbers| pb::Account { limits: numbers, ..Default::default() };
    let refusal = change(numbers(limits(5, 5)), &["limits"]).await.unwrap_err();
    assert_eq!(refusal.message(), "limits are for accounts on plan enterprise");
    let enterprise = pb::Account { plan: pb::Plan::Enterprise.into(), ..numbers(limits(500, 5_000)) };
    assert_eq!(change(enterprise, &["plan"]).await.unwrap().limits, limits(500, 5_000));
    let changed =
        change(pb::Account { name: "other".into(), ..numbers(limits(7, 70)) }, &["limits"]).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.limits), ("acme", limits(7, 70)));
    let refusal = change(numbers(limits(0, 70)), &["limits"]).await.unwrap_err();
    assert_eq!(refusal.message(), "per-minute must be from 1 to 1000000000");
    let business = pb::Account { plan: pb::Plan::Business.into(), ..numbers(limits(7, 70)) };
    assert_eq!(change(business, &["plan"]).await.unwrap().limits, limits(1_000, 100_000));
    for paths in [&[][..], &["id"], &["name", "create_time"]] {
        assert_eq!(
            reason(&change(pb::Account::default(), paths).await.unwrap_err()),
            "INVALID_PARAMETER",
            "{paths:?}"
        );
    }
}

#[tokio::test]
async fn keys_have_labels_and_are_shown_with_their_bans() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    admin.create_account(new_account("zoo")).await.unwrap();
    let created = admin.create_key(new_key("acme")).await.unwrap().into_inner();
    let (key, secret) = (created.key.unwrap(), created.api_key);
    assert!(ApiKey::parse(&secret).is_some() && secret.ends_with(&key.last_four));
    assert_eq!(
        (key.label.as_str(), key.state(), key.account.as_str()),
        ("shop floor", pb::KeyState::Active, "acme")
    );
    admin.create_key(pb::CreateKeyRequest { label: String::new(), ..new_key("zoo") }).await.unwrap();
    for label in ["a\n", &"x".repeat(65), " ", &secret] {
        let refusal = admin.create_key(pb::CreateKeyRequest { label: label.into(), ..new_key("acme") }).await;
        assert_eq!(reason(&refusal.unwrap_err()), "INVALID_PARAMETER", "{label}");
    }
    let imposed = admin.create_ban(ban(&key.id)).await.unwrap().into_inner().ban;
    let shown = admin.get_key(pb::GetKeyRequest { key_id: key.id.clone() }).await.unwrap().into_inner();
    assert_eq!(shown.key.unwrap().ban, imposed);
    shop.hand.advance(Duration::from_millis(1)); // keys sort by the moment of their creation
    let rotated =
        admin.rotate_key(pb::RotateKeyRequest { key_id: key.id.clone(), ..Default::default() }).await;
    let rotated = rotated.unwrap().into_inner();
    assert_eq!((rotated.key.unwrap().label.as_str(), rotated.old_key.unwrap().ban), ("shop floor", imposed));
    let of_acme = pb::ListKeysRequest { account: "acme".into(), ..Default::default() };
    let keys = admin.list_keys(of_acme).await.unwrap().into_inner().keys;
    assert_eq!(keys.iter().map(|key| key.ban.is_some()).collect::<Vec<_>>(), [true, false]);
    let first = pb::ListKeysRequest { page_size: 2, ..Default::default() };
    let first = admin.list_keys(first).await.unwrap().into_inner();
    let next = pb::ListKeysRequest { page_token: first.next_page_token, ..Default::default() };
    let next = admin.list_keys(next).await.unwrap().into_inner();
    assert_eq!((first.keys.len(), next.keys.len(), next.next_page_token.as_str()), (2, 1, ""));
}

#[tokio::test]
async fn bans_are_listed_by_their_end_page_by_page() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id);
    }
    for id in &ids {
        admin.create_ban(ban(id)).await.unwrap(); // all end at once: the key decides
    }
    ids.sort();
    let mut found = Vec::new();
    let mut list = pb::ListBansRequest { page_size: 2, account: "acme".into(), ..Default::default() };
    loop {
        let page = admin.list_bans(list.clone()).await.unwrap().into_inner();
        found.extend(page.bans.into_iter().map(|ban| ban.key_id));
        if page.next_page_token.is_empty() {
            break;
        }
        list.page_token = page.next_page_token;
    }
    assert_eq!(found, ids);
    admin.lift_ban(pb::LiftBanRequest { key_id: ids[0].clone() }).await.unwrap();
    shop.hand.advance(Duration::from_mins(59));
    assert_eq!(admin.list_bans(pb::ListBansRequest::default()).await.unwrap().into_inner().bans.len(), 2);
    shop.hand.advance(Duration::from_mins(1));
    assert!(admin.list_bans(pb::ListBansRequest::default()).await.unwrap().into_inner().bans.is_empty());
}

#[tokio::test]
async fn the_audit_is_filtered_by_operator_account_key_and_time() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    change_everything(&mut admin).await;
    shop.hand.advance(Duration::from_mins(1));
    let ann = token(&shop, "ann", Role::Admin).await;
    remote(&shop).create_account(with(&ann, new_account("zoo"))).await.unwrap();
    let mut actions = async |list: pb::ListAuditEventsRequest| {
        let list = pb::ListAuditEventsRequest { page_size: 100, ..list };
        let events = admin.list_audit_events(list).await.unwrap().into_inner().events;
        events.into_iter().map(|event| event.action).collect::<Vec<_>>()
    };
    let all = pb::ListAuditEventsRequest::default;
    assert_eq!(
        actions(pb::ListAuditEventsRequest { operator: "ann".into(), ..all() }).await,
        ["CreateAccount"]
    );
    // Also by the name that the account had, and what was done before it got the one it has.
    for account in ["acme", "acme-2"] {
        let found = actions(pb::ListAuditEventsRequest { account: account.into(), ..all() }).await;
        assert_eq!(found.len(), if account == "acme" { 2 } else { 9 }, "{account}: {found:?}");
    }
    let at = |minutes: i64| Some(prost_types::Timestamp { seconds: 1_800_000_000 + 60 * minutes, nanos: 0 });
    let late = actions(pb::ListAuditEventsRequest { start_time: at(1), ..all() }).await;
    assert_eq!(late, ["CreateAccount"], "the operator was created with the time of the start");
    let early =
        actions(pb::ListAuditEventsRequest { end_time: at(1), operator: "local".into(), ..all() }).await;
    assert_eq!(early.len(), 12);
}

#[tokio::test]
async fn the_database_refuses_to_change_or_remove_an_audit_event() {
    let shop = Shop::open().await;
    local(&shop).create_account(new_account("acme")).await.unwrap();
    for statement in ["UPDATE audit_events SET operator = 'eve'", "DELETE FROM audit_events"] {
        let refusal = shop.core.store().execute_unchecked(statement).await.unwrap_err();
        assert!(refusal.to_string().contains("append-only"), "{statement}: {refusal}");
    }
    assert_eq!(events(&mut local(&shop)).await.len(), 1);
}

#[tokio::test]
async fn usage_is_told_by_day_of_one_account_and_of_all() {
    use petstore_proto::internal::v1::{
        ReportUsageRequest, UsageDay, UsageRow, usage_service_client::UsageServiceClient,
    };
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let today = 1_800_000_000 / 86_400;
    let mut rows = Vec::new();
    for (name, get_pet) in [("acme", 2), ("zoo", 5)] {
        let account = admin.create_account(new_account(name)).await.unwrap().into_inner().account.unwrap();
        for day in [today - 40, today - 1, today] {
            let day =
                UsageDay { day, succeeded: 10, client_errors: 1, refused: 2, server_errors: 3, get_pet };
            rows.push(UsageRow { account_id: account.id, day: Some(day) });
        }
    }
    let mut reports = UsageServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)));
    reports.report_usage(ReportUsageRequest { reporter: "gateway".into(), number: 1, rows }).await.unwrap();
    let of = |account: &str| pb::GetUsageRequest { account: account.into(), ..Default::default() };
    for (account, factor) in [("", 2), ("acme", 1)] {
        let periods = admin.get_usage(of(account)).await.unwrap().into_inner().periods;
        assert_eq!(periods.len(), 2, "30 days");
        let get_pet = if account.is_empty() { 7 } else { 2 };
        let counts = pb::UsageCounts {
            succeeded: 10 * factor,
            client_errors: factor,
            refused: 2 * factor,
            server_errors: 3 * factor,
            get_pet,
        };
        assert_eq!(
            (periods[1].counts, periods[1].start_time.unwrap().seconds),
            (Some(counts), today * 86_400)
        );
    }
    let nobody = admin.get_usage(of("nobody")).await.unwrap_err();
    assert_eq!((nobody.code(), reason(&nobody).as_str()), (Code::NotFound, "ACCOUNT_NOT_FOUND"));
    let uses =
        admin.list_deprecated_use(pb::ListDeprecatedUseRequest::default()).await.unwrap().into_inner().uses;
    let uses: Vec<_> = uses.iter().map(|used| (used.account.as_str(), used.calls)).collect();
    assert_eq!(uses, [("zoo", 10), ("acme", 4)]);
}

#[tokio::test]
async fn gateways_hear_of_a_suspension_and_of_its_end() {
    use petstore_proto::internal::v1::{KeyState, ListChangesRequest, ResolveKeyRequest};
    let shop = Shop::open().await;
    let (mut admin, mut keys) = (local(&shop), shop.keys());
    admin.create_account(new_account("acme")).await.unwrap();
    let issued = admin.create_key(new_key("acme")).await.unwrap().into_inner();
    let digest = ApiKey::parse(&issued.api_key).unwrap().digest().0.to_vec();
    let mut revision = 0;
    for is_suspended in [false, true, false] {
        if is_suspended {
            admin.suspend_account(suspend("acme")).await.unwrap();
        } else {
            admin.resume_account(pb::ResumeAccountRequest { account: "acme".into() }).await.unwrap();
        }
        let changes =
            keys.list_changes(ListChangesRequest { after_revision: revision }).await.unwrap().into_inner();
        assert_eq!(changes.changes.len(), 1, "{is_suspended}");
        revision = changes.revision;
        let answer =
            keys.resolve_key(ResolveKeyRequest { digest: digest.clone() }).await.unwrap().into_inner();
        let key = answer.key.unwrap();
        // Gateways of earlier releases know no suspension: to them the key is revoked.
        let state = if is_suspended { KeyState::Revoked } else { KeyState::Active };
        let reason = is_suspended.then(|| "open invoice".to_owned());
        assert_eq!((key.state(), key.suspension.map(|suspension| suspension.reason)), (state, reason));
    }
}

#[tokio::test]
async fn a_refusal_is_explained_by_what_is_in_force_first() {
    use petstore_proto::{
        admin::v1::explain_refusal_request::Subject,
        internal::v1::{ReportUsageRequest, UsageDay, UsageRow, usage_service_client::UsageServiceClient},
    };
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let account = admin.create_account(new_account("acme")).await.unwrap().into_inner().account.unwrap();
    let key = async |admin: &mut Admin| {
        admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id
    };
    let (used, revoked) = (key(&mut admin).await, key(&mut admin).await);
    let explain = async |subject: Subject| {
        let request = pb::ExplainRefusalRequest { subject: Some(subject) };
        let answer = local(&shop).explain_refusal(request).await.unwrap().into_inner();
        let told = answer.explanations.into_iter();
        told.map(|it| (it.code, it.in_force, it.sentence)).collect::<Vec<_>>()
    };
    let of_account = || explain(Subject::Account("acme".into()));
    assert_eq!(of_account().await, []);

    let mut usage = UsageServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)));
    let mut report = async |number, succeeded| {
        let day = UsageDay { day: 1_800_000_000 / 86_400, succeeded, refused: 4, ..Default::default() };
        let rows = vec![UsageRow { account_id: account.id, day: Some(day) }];
        usage.report_usage(ReportUsageRequest { reporter: "gateway".into(), number, rows }).await.unwrap();
    };
    report(1, 60).await;
    let minute = "4 requests of account acme were refused in the UTC day 2027-01-15, because they came \
                  faster than the 60 a minute that its plan free allows.";
    assert_eq!(of_account().await, [("RATE_LIMITED".to_owned(), false, minute.to_owned())]);
    report(2, 940).await;
    let day = "Account acme has used all 1000 requests that its plan free allows in the UTC day \
               2027-01-15; more are refused until 2027-01-16T00:00:00Z.";
    assert_eq!(of_account().await, [("QUOTA_EXCEEDED".to_owned(), true, day.to_owned())]);

    shop.hand.advance(Duration::from_mins(1));
    admin.create_ban(ban(&used)).await.unwrap();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: revoked.clone() }).await.unwrap();
    shop.hand.advance(Duration::from_mins(1));
    admin.suspend_account(suspend("acme")).await.unwrap();
    let codes =
        |told: Vec<(String, bool, String)>| told.into_iter().map(|(code, ..)| code).collect::<Vec<_>>();
    let told = of_account().await;
    assert_eq!(told[0].2, "Account acme is suspended since 2027-01-15T08:02:00Z: open invoice.");
    assert_eq!(codes(told)[1..].iter().filter(|code| *code == "API_KEY_BANNED").count(), 1);
    let told = codes(explain(Subject::KeyId(used)).await);
    assert_eq!(told, ["ACCOUNT_SUSPENDED", "API_KEY_BANNED", "QUOTA_EXCEEDED"]);
    let told = codes(explain(Subject::KeyId(revoked.clone())).await);
    assert_eq!(told, ["ACCOUNT_SUSPENDED", "API_KEY_REVOKED", "QUOTA_EXCEEDED"]);
    // Keys that ended long ago are explained when somebody asks about them.
    shop.hand.advance(Duration::from_hours(48));
    assert_eq!(codes(of_account().await), ["ACCOUNT_SUSPENDED"]);
    assert_eq!(codes(explain(Subject::KeyId(revoked)).await), ["ACCOUNT_SUSPENDED", "API_KEY_REVOKED"]);
}
