//! Keys that may only read, and keys that are bound to addresses.

use std::time::Duration;

use petstore_testkit::{Answer, Client, Plan, TestShop};
use serde_json::json;

const PET: &str = r#"{"name": "Rex", "categoryId": 7}"#;
const INSUFFICIENT: &str = r#"Bearer realm="petstore", error="insufficient_scope""#;

#[tokio::test]
async fn a_key_that_may_only_read_reads_and_changes_nothing() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Business).await;
    let (full, reading) = (shop.client_of(&account).await, shop.client_reading(&account).await);
    full.send("POST", "/v1/pets", &[], PET).await.assert_status(201);
    for (method, path, status) in [
        ("GET", "/v1/pets", 200),
        ("HEAD", "/v1/pets/1", 200),
        ("GET", "/v1/store/orders", 200),
        ("GET", "/v1/usage", 200),
        ("OPTIONS", "/v1/pets", 204),
        ("GET", "/v1/nothing", 404),
    ] {
        reading.send(method, path, &[], "").await.assert_status(status);
    }
    for (method, path) in [
        ("POST", "/v1/pets"),
        ("DELETE", "/v1/pets/1"),
        ("POST", "/v1/nothing"),
        ("PUT", "/v1/usage"),
        ("BREW", "/v1/pets"),
    ] {
        let answer = reading.send(method, path, &[], PET).await;
        answer.assert_error(403, "INSUFFICIENT_SCOPE");
        assert_eq!(answer.header("www-authenticate"), INSUFFICIENT, "{method} {path}: {answer:?}");
    }
    assert_eq!(full.get("/v1/pets").await.json().as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_request_beyond_the_scope_of_its_key_counts_as_any_other_and_limits_come_first() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Free).await;
    let (full, reading) = (shop.client_of(&account).await, shop.client_reading(&account).await);
    let refused = reading.send("POST", "/v1/pets", &[], PET).await;
    refused.assert_error(403, "INSUFFICIENT_SCOPE");
    assert_eq!(refused.rate().remaining, 59, "{refused:?}");
    full.sends(59, "/v1/pets").await;
    reading.send("POST", "/v1/pets", &[], PET).await.assert_error(429, "RATE_LIMITED");
}

#[tokio::test]
async fn a_key_bound_to_addresses_is_refused_from_any_other() {
    let shop = TestShop::open_with(&["--trusted-proxy", "127.0.0.1"]).await;
    let account = shop.account_on(Plan::Business).await;
    let bound =
        shop.client_bound_to(&account, &["203.0.113.0/24", "::ffff:198.51.100.7", "2001:db8::1"]).await;
    for (address, is_allowed) in [
        ("203.0.113.255", true),
        ("::ffff:203.0.113.1", true),
        ("198.51.100.7", true),
        ("2001:db8::1", true),
        ("203.0.114.0", false),
        ("198.51.100.8", false),
        ("2001:db8::2", false), // of the same /64
        ("127.0.0.1", false),
    ] {
        let answer = from(&bound, address, "GET", "/v1/pets").await;
        if is_allowed {
            answer.assert_status(200);
        } else {
            answer.assert_error(403, "ADDRESS_NOT_ALLOWED");
            assert_eq!(answer.find("www-authenticate"), None, "{answer:?}");
        }
    }
    from(&bound, "192.0.2.1", "GET", "/v1/usage").await.assert_error(403, "ADDRESS_NOT_ALLOWED");
    from(&bound, "192.0.2.1", "OPTIONS", "/v1/pets").await.assert_status(204);
    let forged = from(&bound, "203.0.113.1, 192.0.2.1", "GET", "/v1/pets").await;
    forged.assert_error(403, "ADDRESS_NOT_ALLOWED");
}

#[tokio::test]
async fn without_a_trusted_proxy_only_the_peer_of_the_connection_is_the_address_of_a_key() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Free).await;
    let elsewhere = shop.client_bound_to(&account, &["203.0.113.0/24"]).await;
    let refused = from(&elsewhere, "203.0.113.1", "GET", "/v1/pets").await;
    refused.assert_error(403, "ADDRESS_NOT_ALLOWED");
    let here = shop.client_bound_to(&account, &["127.0.0.0/8"]).await;
    assert_eq!(here.get("/v1/pets").await.assert_status(200).rate().remaining, 59);
}

#[tokio::test]
async fn a_stolen_key_that_is_bound_to_addresses_costs_its_holder_nothing_and_shows_nothing() {
    let shop = TestShop::open_with(&["--trusted-proxy", "127.0.0.1"]).await;
    let account = shop.account_on(Plan::Free).await;
    let bound = shop.client_bound_to(&account, &["203.0.113.7"]).await;
    let rotated = shop.rotate(&bound, Duration::from_hours(1)).await; // so that it expires
    let (holder, thief) = ("203.0.113.7", "198.51.100.9");
    assert!(from(&bound, holder, "GET", "/v1/pets").await.find("x-api-key-expires").is_some());
    for left in (0..600).rev() {
        let method = ["GET", "POST", "PUT"][left % 3];
        let refused =
            from(&bound, thief, method, ["/v1/pets", "/v1/usage", "/v1/nothing"][left / 3 % 3]).await;
        refused.assert_error(403, "ADDRESS_NOT_ALLOWED");
        assert_eq!((refused.rate().limit, refused.rate().remaining), (600, left as u64), "{refused:?}");
        assert_eq!(refused.find("x-api-key-expires"), None, "{refused:?}");
    }
    let over = from(&rotated, thief, "GET", "/v1/pets").await;
    over.assert_error(429, "RATE_LIMITED");
    assert!(over.message().contains("600 failed attempts to authenticate per minute"), "{over:?}");
    assert_eq!(over.find("x-api-key-expires"), None, "{over:?}");
    let usage = from(&bound, holder, "GET", "/v1/usage").await.assert_status(200).json();
    assert_eq!((&usage["minute"]["used"], &usage["strikes"]), (&json!(1), &json!(0)), "{usage}");
    assert_eq!((&usage["days"][0]["requests"], usage.get("ban")), (&json!(1), None), "{usage}");
    assert_eq!(from(&bound, holder, "GET", "/v1/pets").await.assert_status(200).rate().remaining, 58);
}

#[tokio::test]
async fn elsewhere_a_key_of_a_suspended_account_does_not_tell_the_reason() {
    let shop = TestShop::open_with(&["--trusted-proxy", "127.0.0.1"]).await;
    let account = shop.account_on(Plan::Free).await;
    let bound = shop.client_bound_to(&account, &["203.0.113.7"]).await;
    shop.suspend(&account, "open invoice").await;
    from(&bound, "203.0.113.7", "GET", "/v1/pets").await.assert_error(403, "ACCOUNT_SUSPENDED");
    from(&bound, "198.51.100.9", "GET", "/v1/pets").await.assert_error(403, "ADDRESS_NOT_ALLOWED");
}

#[tokio::test]
async fn a_rotated_key_keeps_its_scope() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Business).await;
    let reading = shop.client_reading(&account).await;
    let rotated = shop.rotate(&reading, Duration::from_hours(1)).await;
    rotated.get("/v1/pets").await.assert_status(200);
    rotated.send("POST", "/v1/pets", &[], PET).await.assert_error(403, "INSUFFICIENT_SCOPE");
    let bound = shop.client_bound_to(&account, &["203.0.113.0/24"]).await;
    let rotated = shop.rotate(&bound, Duration::ZERO).await;
    rotated.get("/v1/pets").await.assert_error(403, "ADDRESS_NOT_ALLOWED");
}

/// Sends a request that a proxy forwards for this address.
async fn from(client: &Client, address: &str, method: &str, path: &str) -> Answer {
    client.send(method, path, &[("x-forwarded-for", address)], "").await
}
