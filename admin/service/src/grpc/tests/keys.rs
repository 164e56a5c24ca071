//! Keys and their bans.

use petstore_proto::internal::v1::{KeyUse, ReportUsageRequest, ReportUseRequest, UsageRow};

use futures_util::future::join_all;

use super::*;

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
    let zero = prost_types::Duration::default();
    let expiration = Some(pb::create_key_request::Expiration::Ttl(zero));
    let refusal = admin.create_key(pb::CreateKeyRequest { expiration, ..new_key("acme") }).await.unwrap_err();
    assert_eq!(refusal.message(), "ttl must be positive");
    let end = Some(pb::create_ban_request::End::Duration(zero));
    let refusal = admin.create_ban(pb::CreateBanRequest { end, ..ban(&key.id) }).await.unwrap_err();
    assert_eq!(refusal.message(), "duration must end in the future, at most 366 days from now");
    let imposed = admin.create_ban(ban(&key.id)).await.unwrap().into_inner().ban;
    let shown = admin.get_key(pb::GetKeyRequest { key_id: key.id.clone() }).await.unwrap().into_inner();
    assert_eq!(shown.key.unwrap().ban, imposed);
    shop.hand.advance(Duration::from_millis(1)); // keys sort by the time of their creation
    let rotated =
        admin.rotate_key(pb::RotateKeyRequest { key_id: key.id.clone(), ..Default::default() }).await;
    let rotated = rotated.unwrap().into_inner();
    assert_eq!((rotated.key.unwrap().label.as_str(), rotated.old_key.unwrap().ban), ("shop floor", imposed));
    let of_acme = pb::ListKeysRequest { account: "acme".into(), ..Default::default() };
    let keys = admin.list_keys(of_acme).await.unwrap().into_inner().keys;
    assert_eq!(keys.iter().map(|key| key.ban.is_some()).collect::<Vec<_>>(), [false, true]);
    let first = pb::ListKeysRequest { page_size: 2, ..Default::default() };
    let first = admin.list_keys(first).await.unwrap().into_inner();
    let next = pb::ListKeysRequest { page_token: first.next_page_token, ..Default::default() };
    let next = admin.list_keys(next).await.unwrap().into_inner();
    assert_eq!((first.keys.len(), next.keys.len(), next.next_page_token.as_str()), (2, 1, ""));
    assert_eq!((first.total_size, next.total_size), (Some(3), None));
}

#[tokio::test]
async fn a_key_has_its_scope_in_lists_in_the_audit_log_and_after_a_rotation() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let scoped = pb::CreateKeyRequest {
        access: pb::KeyAccess::Read.into(),
        allowed_addresses: vec!["::ffff:10.0.0.0/104".into(), "2001:DB8::/32".into(), "10.0.0.0/8".into()],
        ..new_key("acme")
    };
    let created = admin.create_key(scoped).await.unwrap().into_inner().key.unwrap();
    let scope = |key: &pb::Key| (key.access(), key.allowed_addresses.join(" "));
    let expected = (pb::KeyAccess::Read, "10.0.0.0/8 2001:db8::/32".to_owned());
    assert_eq!(scope(&created), expected);
    let event = events(&mut admin).await.remove(0);
    let recorded: serde_json::Value = serde_json::from_str(&event.after_json).unwrap();
    let addresses = serde_json::json!(["10.0.0.0/8", "2001:db8::/32"]);
    assert_eq!((&recorded["access"], &recorded["allowedAddresses"]), (&"read".into(), &addresses));
    let rotate = pb::RotateKeyRequest { key_id: created.id.clone(), ..Default::default() };
    let rotated = admin.rotate_key(rotate).await.unwrap().into_inner();
    assert_eq!(
        (scope(&rotated.key.unwrap()), scope(&rotated.old_key.unwrap())),
        (expected.clone(), expected)
    );
    let full = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap();
    assert_eq!(scope(&full), (pb::KeyAccess::Full, String::new()));
}

#[tokio::test]
async fn a_scope_that_cannot_be_read_is_refused() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let hosts = |count| (0..count).map(|host| format!("192.0.2.{host}")).collect::<Vec<_>>();
    for (access, allowed_addresses, is_valid) in [
        (2, hosts(16), true),
        (2, hosts(17), false),
        (0, vec!["10.0.0.1/8".to_owned()], false),
        (0, vec![String::new()], false),
        (3, Vec::new(), false),
    ] {
        let request = pb::CreateKeyRequest { access, allowed_addresses, ..new_key("acme") };
        match admin.create_key(request.clone()).await {
            Ok(_) => assert!(is_valid, "{request:?}"),
            Err(refusal) => assert!(!is_valid && reason(&refusal) == "INVALID_PARAMETER", "{request:?}"),
        }
    }
}

#[tokio::test]
async fn bans_are_listed_newest_first_page_by_page() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id);
    }
    for id in &ids {
        admin.create_ban(ban(id)).await.unwrap(); // all begin at the same time: the key decides
    }
    ids.sort_by(|one, other| other.cmp(one));
    let mut found = Vec::new();
    let mut list = pb::ListBansRequest { page_size: 2, account: "acme".into(), ..Default::default() };
    loop {
        let page = admin.list_bans(list.clone()).await.unwrap().into_inner();
        assert_eq!(page.total_size, found.is_empty().then_some(3));
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

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn lasting(time: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(time).unwrap()
}

async fn listed(
    admin: &mut Admin,
    unused_for: Option<Duration>,
    expiring_within: Option<Duration>,
) -> Vec<String> {
    let list = pb::ListKeysRequest {
        account: "acme".into(),
        unused_for: unused_for.map(lasting),
        expiring_within: expiring_within.map(lasting),
        page_size: 1,
        ..Default::default()
    };
    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let page =
            admin.list_keys(pb::ListKeysRequest { page_token, ..list.clone() }).await.unwrap().into_inner();
        let total = page.total_size;
        found.extend(page.keys.into_iter().map(|key| key.label));
        if page.next_page_token.is_empty() {
            assert!(found.len() > 1 || total == Some(found.len().try_into().unwrap()), "{found:?} {total:?}");
            return found;
        }
        page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn keys_are_listed_by_how_long_they_are_unused_and_how_soon_they_expire() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    for (label, ttl) in
        [("forever", None), ("week", Some(7 * DAY)), ("month", Some(30 * DAY)), ("revoked", Some(7 * DAY))]
    {
        let expiration = ttl.map(lasting).map(pb::create_key_request::Expiration::Ttl);
        let new = pb::CreateKeyRequest { label: label.into(), expiration, ..new_key("acme") };
        let key = admin.create_key(new).await.unwrap().into_inner().key.unwrap();
        if label == "revoked" {
            admin.revoke_key(pb::RevokeKeyRequest { key_id: key.id }).await.unwrap();
        }
        shop.hand.advance(HOUR);
    }
    let all = ["revoked", "month", "week", "forever"];
    assert_eq!(listed(&mut admin, None, None).await, all);
    assert_eq!(listed(&mut admin, None, Some(7 * DAY)).await, ["week"]);
    assert_eq!(listed(&mut admin, None, Some(30 * DAY)).await, ["month", "week"]);
    assert_eq!(listed(&mut admin, None, Some(HOUR)).await, [""; 0]);
    // A key counts as unused from its creation on.
    assert_eq!(listed(&mut admin, Some(3 * HOUR), None).await, ["week", "forever"]);
    assert_eq!(listed(&mut admin, Some(3 * HOUR), Some(7 * DAY)).await, ["week"]);
    assert_eq!(listed(&mut admin, Some(5 * HOUR), None).await, [""; 0]);
    shop.hand.advance(7 * DAY);
    assert_eq!(
        listed(&mut admin, Some(DAY), None).await,
        ["month", "forever"],
        "an expired key is not active"
    );
    assert_eq!(listed(&mut admin, None, Some(90 * DAY)).await, ["month"]);

    let first = pb::ListKeysRequest { unused_for: Some(lasting(DAY)), page_size: 1, ..Default::default() };
    let page_token = admin.list_keys(first.clone()).await.unwrap().into_inner().next_page_token;
    let other = pb::ListKeysRequest { unused_for: Some(lasting(HOUR)), page_token, ..first };
    assert_eq!(reason(&admin.list_keys(other).await.unwrap_err()), "INVALID_CURSOR");
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let refused =
        admin.list_keys(pb::ListKeysRequest { expiring_within: negative, ..Default::default() }).await;
    assert_eq!(reason(&refused.unwrap_err()), "INVALID_PARAMETER");
}

#[tokio::test]
async fn keys_are_found_by_their_digests_in_any_state() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let [kept, revoked] = [
        admin.create_key(new_key("acme")).await.unwrap().into_inner(),
        admin.create_key(new_key("acme")).await.unwrap().into_inner(),
    ];
    let id = revoked.key.unwrap().id;
    admin.revoke_key(pb::RevokeKeyRequest { key_id: id.clone() }).await.unwrap();
    let digest = |key: &str| ApiKey::parse(key).unwrap().digest().to_hex();
    let unknown = digest("pet_live_0000000000000000000000000000001PRvVh");
    let digests = vec![digest(&kept.api_key), unknown, digest(&revoked.api_key)];
    let found = admin.find_keys(pb::FindKeysRequest { digests: digests.clone() }).await.unwrap().into_inner();
    let mut found: Vec<_> = found.keys.into_iter().map(|it| (it.digest, it.key.unwrap())).collect();
    found.sort_by_key(|(_, key)| key.state);
    let states: Vec<_> = found.iter().map(|(digest, key)| (digest, key.id.as_str(), key.state())).collect();
    let kept = kept.key.unwrap().id;
    assert_eq!(
        states,
        [
            (&digests[0], kept.as_str(), pb::KeyState::Active),
            (&digests[2], id.as_str(), pb::KeyState::Revoked)
        ]
    );
    assert_eq!(admin.find_keys(pb::FindKeysRequest::default()).await.unwrap().into_inner().keys, []);
    let refused = [vec![digests[0].clone(); 101], vec!["ab".into()], vec![digests[0].to_uppercase()]];
    for digests in refused {
        let refused = admin.find_keys(pb::FindKeysRequest { digests }).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_PARAMETER");
    }
    let actions: Vec<_> = events(&mut admin).await.into_iter().map(|event| event.action).collect();
    assert!(!actions.contains(&"FindKeys".to_owned()), "{actions:?}");
}

/// Reports one request with a key at the current time, as a gateway does.
async fn used(shop: &Shop, key: &pb::Key, number: i64) {
    let minute = i64::try_from(shop.core.clock.now().as_secs() / 60).unwrap();
    let row = UsageRow {
        account_id: key.account_id,
        key_id: key.id.clone(),
        minute,
        succeeded: 1,
        ..Default::default()
    };
    let report =
        ReportUsageRequest { reporter: "gateway".into(), number, requests: vec![row], ..Default::default() };
    reports(shop).report_usage(report).await.unwrap();
    let last_use = KeyUse { key_id: key.id.clone(), last_used_at_ms: shop.core.clock.now().as_i64() };
    shop.keys().report_use(ReportUseRequest { uses: vec![last_use] }).await.unwrap();
}

async fn handover(admin: &mut Admin, key: &pb::Key) -> (pb::HandoverState, String) {
    let asked = pb::GetKeyHandoverRequest { key_id: key.id.clone() };
    let answer = admin.get_key_handover(asked).await.unwrap().into_inner();
    (answer.state(), answer.sentence)
}

#[tokio::test]
async fn the_first_use_of_a_key_is_not_before_its_creation() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let first = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap();
    shop.hand.advance(Duration::from_secs(20));
    let rotation = pb::RotateKeyRequest { key_id: first.id, ..Default::default() };
    let second = admin.rotate_key(rotation).await.unwrap().into_inner().key.unwrap();
    shop.hand.advance(Duration::from_secs(10));
    used(&shop, &second, 1).await;
    let asked = pb::GetKeyHandoverRequest { key_id: second.id.clone() };
    let answer = admin.get_key_handover(asked).await.unwrap().into_inner();
    assert_eq!(answer.new_first_use_time, second.create_time);
}

#[tokio::test]
async fn of_rotations_without_grace_at_once_one_leaves_a_successor() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let mut key = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap();
    for round in 1..=8 {
        shop.hand.advance(MINUTE);
        // Each takes its time before it gets the lock; the one that gets it first may have begun last.
        let rotations = (0..12).rev().map(|millis| {
            let (mut admin, hand, key_id) = (admin.clone(), &shop.hand, key.id.clone());
            let grace = Some(prost_types::Duration::default());
            async move {
                hand.set(START.plus(MINUTE * round + Duration::from_millis(millis)));
                admin.rotate_key(pb::RotateKeyRequest { key_id, grace, ..Default::default() }).await
            }
        });
        let left: Vec<_> = join_all(rotations).await.into_iter().flatten().collect();
        assert_eq!(left.len(), 1, "{} successors", left.len());
        key = left[0].get_ref().key.clone().unwrap();
    }
    // With a grace period the old key is active, so it may be rotated again.
    shop.hand.advance(MINUTE);
    for _ in 0..2 {
        let rotation = pb::RotateKeyRequest { key_id: key.id.clone(), ..Default::default() };
        admin.rotate_key(rotation).await.unwrap();
    }
}

#[tokio::test]
async fn a_rotation_is_seen_through_until_the_old_key_is_silent_for_a_day() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    admin.create_account(new_account("acme")).await.unwrap();
    let first = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap();
    let (state, sentence) = handover(&mut admin, &first).await;
    assert_eq!(state, pb::HandoverState::NotRotated, "{sentence}");
    shop.hand.advance(HOUR);
    used(&shop, &first, 1).await;
    let rotation = pb::RotateKeyRequest {
        key_id: first.id.clone(),
        grace: Some(lasting(30 * DAY)),
        ..Default::default()
    };
    let second = admin.rotate_key(rotation).await.unwrap().into_inner().key.unwrap();
    assert_eq!(second.replaces, first.id);
    let event = events(&mut admin).await.remove(0);
    assert!(event.after_json.contains(&format!(r#""replaces":"{}""#, first.id)), "{event:?}");
    for key in [&first, &second] {
        assert_eq!(
            handover(&mut admin, key).await,
            (
                pb::HandoverState::NotYetSafe,
                "new key last used: never, old key last used: 2027-01-15T09:00:00Z (1 of 1 requests in the \
                 last hour): not yet safe to revoke, no request has used the new key"
                    .to_owned()
            )
        );
    }
    shop.hand.advance(MINUTE);
    for number in 2..9 {
        used(&shop, &second, number).await;
        shop.hand.advance(MINUTE);
    }
    let (state, sentence) = handover(&mut admin, &second).await;
    assert_eq!(state, pb::HandoverState::NotYetSafe);
    assert_eq!(
        sentence,
        "new key last used: 2027-01-15T09:07:00Z, old key last used: 2027-01-15T09:00:00Z (1 of 8 requests \
         in the last hour): not yet safe to revoke, safe if it stays unused until 2027-01-16T09:00:00Z"
    );
    // The day since the last use with the old key is over 8 minutes earlier than a day from now.
    shop.hand.advance(Duration::from_mins(24 * 60 - 9) + Duration::from_millis(59_999));
    assert_eq!(handover(&mut admin, &first).await.0, pb::HandoverState::NotYetSafe);
    shop.hand.advance(Duration::from_millis(1));
    let (state, sentence) = handover(&mut admin, &first).await;
    assert_eq!(
        (state, sentence.as_str()),
        (
            pb::HandoverState::Safe,
            "new key last used: 2027-01-15T09:07:00Z, old key last used: 2027-01-15T09:00:00Z (0 of 0 \
             requests in the last hour): safe to revoke"
        )
    );

    // A key in the middle is judged as the old one of its last rotation.
    let rotation = pb::RotateKeyRequest { key_id: second.id.clone(), ..Default::default() };
    let third = admin.rotate_key(rotation).await.unwrap().into_inner().key.unwrap();
    let middle = pb::GetKeyHandoverRequest { key_id: second.id.clone() };
    let middle = admin.get_key_handover(middle).await.unwrap().into_inner();
    let ids = [middle.old_key.unwrap().id, middle.new_key.unwrap().id];
    assert_eq!(ids, [second.id.clone(), third.id.clone()]);
    admin.revoke_key(pb::RevokeKeyRequest { key_id: third.id.clone() }).await.unwrap();
    let (state, sentence) = handover(&mut admin, &second).await;
    assert_eq!(state, pb::HandoverState::NotYetSafe, "without a valid new key");
    assert!(sentence.ends_with("not yet safe to revoke, the new key is revoked"), "{sentence}");
    admin.revoke_key(pb::RevokeKeyRequest { key_id: first.id.clone() }).await.unwrap();
    let (state, sentence) = handover(&mut admin, &first).await;
    assert_eq!(state, pb::HandoverState::Ended);
    assert!(sentence.ends_with(": the old key is revoked already"), "{sentence}");
}
