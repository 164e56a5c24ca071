//! Accounts: finding, changing and suspending them.

use super::*;

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
    assert_eq!(names(all()).await, ["zoo-1", "zoo_1", "Acme-2", "acme-1"]);
    let part = |part: &str| pb::ListAccountsRequest { name_contains: part.into(), ..all() };
    assert_eq!(names(part("aCME")).await, ["Acme-2", "acme-1"]);
    assert_eq!(names(part("o_")).await, ["zoo_1"], "no wildcard");
    assert_eq!(names(pb::ListAccountsRequest { plan: pb::Plan::Pro.into(), ..all() }).await, ["zoo-1"]);
    assert_eq!(names(pb::ListAccountsRequest { suspended: Some(true), ..all() }).await, ["acme-1"]);
    assert_eq!(names(pb::ListAccountsRequest { suspended: Some(false), ..part("acme") }).await, ["Acme-2"]);
    let matching = pb::ListAccountsRequest { page_size: 1, ..part("acme") };
    let mut page = admin.list_accounts(matching.clone()).await.unwrap().into_inner();
    assert_eq!(page.total_size, Some(2), "of all pages");
    let next = pb::ListAccountsRequest { page_token: std::mem::take(&mut page.next_page_token), ..matching };
    assert_eq!(admin.list_accounts(next).await.unwrap().into_inner().total_size, None);
    let damaged = pb::ListAccountsRequest { page_token: "a.1.0".into(), ..all() };
    assert_eq!(reason(&admin.list_accounts(damaged).await.unwrap_err()), "INVALID_CURSOR");
}

#[tokio::test]
async fn an_update_changes_the_fields_of_its_mask() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let limits = |per_minute, per_day| Some(pb::Limits { per_minute, per_day });
    let mut change = async |values: pb::Account, paths: &[&str]| {
        admin.update_account(update("acme", values, paths)).await.map(|it| it.into_inner().account.unwrap())
    };
    let numbers = |numbers| pb::Account { limits: numbers, ..Default::default() };
    let refusal = change(numbers(limits(5, 5)), &["limits"]).await.unwrap_err();
    assert_eq!(refusal.message(), "limits can be set only on plan enterprise");
    let enterprise = pb::Account { plan: pb::Plan::Enterprise.into(), ..numbers(limits(500, 5_000)) };
    assert_eq!(change(enterprise, &["plan"]).await.unwrap().limits, limits(500, 5_000));
    let changed =
        change(pb::Account { name: "other".into(), ..numbers(limits(7, 70)) }, &["limits"]).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.limits), ("acme", limits(7, 70)));
    let refusal = change(numbers(limits(0, 70)), &["limits"]).await.unwrap_err();
    assert_eq!(refusal.message(), "limits.perMinute must be from 1 to 1000000000");
    let business = pb::Account { plan: pb::Plan::Business.into(), ..numbers(limits(7, 70)) };
    assert_eq!(change(business, &["plan"]).await.unwrap().limits, limits(1_000, 100_000));
    for paths in [&[][..], &["id"], &["id", "create_time"], &["plan", "colour"]] {
        assert_eq!(
            reason(&change(pb::Account::default(), paths).await.unwrap_err()),
            "INVALID_PARAMETER",
            "{paths:?}"
        );
    }
}

#[tokio::test]
async fn a_whole_account_can_be_edited_and_sent_back() {
    const ALL: [&str; 7] = ["id", "name", "plan", "limits", "create_time", "suspend_time", "suspend_reason"];
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let get = pb::GetAccountRequest { account: "acme".into(), ..Default::default() };
    let free = admin.get_account(get).await.unwrap().into_inner().account.unwrap();
    let mut change = async |now: &str, values: pb::Account| {
        let changed = admin.update_account(update(now, values, &ALL)).await;
        changed.map(|it| it.into_inner().account.unwrap())
    };
    assert_eq!(change("acme", free.clone()).await.unwrap(), free, "unchanged");
    let renamed = change("acme", pb::Account { name: "zoo".into(), ..free.clone() }).await.unwrap();
    assert_eq!(renamed, pb::Account { name: "zoo".into(), ..free.clone() });
    let pro = pb::Account { plan: pb::Plan::Pro.into(), id: 99, ..renamed.clone() };
    let limits = Some(pb::Limits { per_minute: 300, per_day: 10_000 });
    assert_eq!(change("zoo", pro.clone()).await.unwrap(), pb::Account { limits, id: free.id, ..pro });

    let own = pb::Account { limits: Some(pb::Limits { per_minute: 7, per_day: 70 }), ..renamed };
    let refusal = change("zoo", own).await.unwrap_err();
    assert_eq!(refusal.message(), "plan must be enterprise to have its own limits");
}

#[tokio::test]
async fn gateways_learn_of_a_suspension_and_its_end() {
    use petstore_proto::internal::v1::{KeyState, ListChangesRequest};
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
        let key = shop.resolve(&digest).await.0.unwrap();
        // Gateways of earlier releases do not know suspensions: they are sent a revoked key.
        let state = if is_suspended { KeyState::Revoked } else { KeyState::Active };
        let reason = is_suspended.then(|| "open invoice".to_owned());
        assert_eq!((key.state(), key.suspension.map(|suspension| suspension.reason)), (state, reason));
    }
}
