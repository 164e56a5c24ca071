//! Keys and their bans.

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
