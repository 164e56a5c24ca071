//! Audit events: they are listed, filtered and never changed.

use prost::Message;

use super::*;

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
            // Only ends of words: four characters may occur inside a text by chance.
            let mut words = text.split(|character: char| !character.is_ascii_alphanumeric());
            let end = &secret[secret.len() - 4..];
            assert!(!words.any(|word| word.ends_with(end)), "the end of a secret: {text}");
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
async fn every_method_that_changes_something_has_its_event() {
    let shop = Shop::open().await;
    let (mut changes, _) = change_everything(&mut local(&shop)).await;
    changes.extend(["CreateSession", "EndSession", "RevokeSession", "RecordLogLevel"]); // see their own tests
    changes.sort_unstable();
    let contracts = prost_types::FileDescriptorSet::decode(petstore_proto::FILE_DESCRIPTOR_SET).unwrap();
    let services = contracts.file.into_iter().flat_map(|file| file.service);
    let service = services.into_iter().find(|service| service.name() == "AdminService").unwrap();
    let reads = |name: &str| ["Get", "List", "Find", "Explain"].iter().any(|verb| name.starts_with(verb));
    let mut methods: Vec<_> = service.method.iter().map(prost_types::MethodDescriptorProto::name).collect();
    methods.retain(|name| !reads(name));
    methods.sort_unstable();
    assert_eq!(changes, methods);
}

#[tokio::test]
async fn failed_and_empty_changes_leave_no_audit_event() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    change_everything(&mut admin).await;
    let before = events(&mut admin).await;
    let key_id = before.iter().find(|event| event.action == "RevokeKey").unwrap().key_id.clone();
    admin.resume_account(pb::ResumeAccountRequest { account: "acme-2".into() }).await.unwrap();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: key_id.clone() }).await.unwrap();
    admin.revoke_operator(pb::RevokeOperatorRequest { name: "bea".into(), force: false }).await.unwrap();
    let taken = admin.create_account(new_account("acme-2")).await.unwrap_err();
    assert_eq!(
        verdict(&taken),
        refused(Code::AlreadyExists, "ACCOUNT_EXISTS", "there is already an account acme-2")
    );
    admin.lift_ban(pb::LiftBanRequest { key_id: key_id.clone() }).await.unwrap();
    let rotation = pb::RotateKeyRequest { key_id, ..Default::default() };
    let revoked = admin.rotate_key(rotation).await.unwrap_err();
    assert_eq!((revoked.code(), reason(&revoked).as_str()), (Code::FailedPrecondition, "KEY_NOT_ACTIVE"));
    assert_eq!(events(&mut admin).await, before);
}

#[tokio::test]
async fn lifting_a_ban_leaves_an_event_even_if_none_is_known_here() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let id = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id;
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    // Until a day after its end, a ban makes the next one longer. One that no gateway has reported yet is
    // unknown.
    for (passed, is_banned, is_known) in [
        (hour, false, false),
        (hour / 2, true, true),
        (hour / 2, false, false),
        (day, true, true),
        (day + hour, true, false),
    ] {
        if is_banned {
            admin.create_ban(ban(&id)).await.unwrap();
        }
        shop.hand.advance(passed);
        let before = events(&mut admin).await.len();
        admin.lift_ban(pb::LiftBanRequest { key_id: id.clone() }).await.unwrap();
        let events = events(&mut admin).await;
        assert_eq!((events.len() - before, events[0].action.as_str()), (1, "LiftBan"), "{passed:?}");
        assert_eq!(!events[0].before_json.is_empty(), is_known, "{passed:?} {:?}", events[0]);
    }
}

#[tokio::test]
async fn a_change_of_the_log_filter_is_an_admins_and_holds_no_key() {
    let shop = Shop::open().await;
    let mut admin = remote(&shop);
    let (ann, vera) = (token(&shop, "ann", Role::Admin).await, token(&shop, "vera", Role::Viewer).await);
    let change = |after: &str| pb::RecordLogLevelRequest { before: "info".into(), after: after.into() };
    let refused = admin.record_log_level(with(&vera, change("off"))).await.unwrap_err();
    assert_eq!(reason(&refused), "OPERATOR_NOT_PERMITTED");
    for wrong in ["", "a\nb", "pet_live_0=info", &"x".repeat(1_001)] {
        let refused = admin.record_log_level(with(&ann, change(wrong))).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{wrong}");
    }
    admin.record_log_level(with(&ann, change("off"))).await.unwrap();
    // The filter until now may come from a start, which bounds it less.
    for before in [String::new(), format!("{}é", "x".repeat(999)), "pet_live_0=info".to_owned()] {
        let request = pb::RecordLogLevelRequest { before, after: "info".into() };
        admin.record_log_level(with(&ann, request)).await.unwrap();
    }
    let mut events = events(&mut local(&shop)).await;
    let of_long: Vec<_> = events.drain(..3).map(|event| event.before_json).collect();
    let long = format!(r#"{{"logFilter":"{}"}}"#, "x".repeat(999));
    assert_eq!(of_long, [r#"{"logFilter":"not shown"}"#, &long, r#"{"logFilter":"not shown"}"#]);
    let (event, others) = events.split_first().unwrap();
    assert_eq!((event.action.as_str(), event.operator.as_str(), others.len()), ("SetLogLevel", "ann", 2));
    assert_eq!(
        (&*event.before_json, &*event.after_json),
        (r#"{"logFilter":"info"}"#, r#"{"logFilter":"off"}"#)
    );
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
    // Also by an earlier name, and changes made before the account got its current name.
    for account in ["acme", "acme-2"] {
        let found = actions(pb::ListAuditEventsRequest { account: account.into(), ..all() }).await;
        assert_eq!(found.len(), if account == "acme" { 2 } else { 9 }, "{account}: {found:?}");
    }
    let at = |minutes: i64| Some(prost_types::Timestamp { seconds: 1_800_000_000 + 60 * minutes, nanos: 0 });
    let late = actions(pb::ListAuditEventsRequest { start_time: at(1), ..all() }).await;
    assert_eq!(late, ["CreateAccount"], "the operator was created with the time of the start");
    let early = actions(pb::ListAuditEventsRequest { end_time: at(1), ..all() }).await;
    assert_eq!(early.len(), 15);
}

#[tokio::test]
async fn the_database_refuses_to_change_or_remove_an_audit_event() {
    let shop = Shop::open().await;
    local(&shop).create_account(new_account("acme")).await.unwrap();
    let database = shop.core.store.database();
    let insert = "INTO audit_events (id, created_at, operator, client_address, action) \
                  SELECT id, created_at, 'eve', client_address, action FROM audit_events";
    let statements = if database.backend() == DbBackend::Sqlite {
        vec![format!("INSERT OR REPLACE {insert}"), format!("REPLACE {insert}")]
    } else {
        vec![format!("INSERT {insert} ON CONFLICT (id) DO UPDATE SET operator = 'eve'")]
    };
    let plain = ["UPDATE audit_events SET operator = 'eve'", "DELETE FROM audit_events"].map(str::to_owned);
    for statement in &[statements, plain.into()].concat() {
        let refusal = database.writer().execute_unprepared(statement).await.unwrap_err();
        assert!(refusal.to_string().contains("append-only"), "{statement}: {refusal}");
    }
    let events = events(&mut local(&shop)).await;
    assert_eq!((events.len(), events[0].operator.as_str()), (1, "local"));
}

#[tokio::test]
async fn the_audit_is_paged_with_each_event_once() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (actions, _) = change_everything(&mut admin).await;
    let mut list = pb::ListAuditEventsRequest { page_size: 5, ..Default::default() };
    let mut found = Vec::new();
    for page in 1..=3 {
        let answer = admin.list_audit_events(list.clone()).await.unwrap().into_inner();
        assert_eq!(answer.total_size, i64::try_from(actions.len()).ok().filter(|_| page == 1));
        found.extend(answer.events.into_iter().map(|event| event.action));
        assert_eq!(answer.next_page_token.is_empty(), page == 3);
        list.page_token = answer.next_page_token;
    }
    found.reverse();
    assert_eq!(found, actions);
}

#[tokio::test]
async fn the_audit_names_the_ban_that_was_in_force_before() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let id = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id;
    let hour = Duration::from_hours(1);
    for (passed, was_banned) in [(hour, false), (hour / 2, true), (hour, false)] {
        shop.hand.advance(passed);
        admin.create_ban(ban(&id)).await.unwrap();
        let events = events(&mut admin).await;
        assert_eq!(!events[0].before_json.is_empty(), was_banned, "{:?}", events[0]);
    }
}
