//! Keys that may only read, and keys that are bound to addresses.

use std::time::Duration;

use petstore_testkit::{Answer, Client, Plan, TestShop};

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
    assert_eq!(refused.rate().limit, 60, "it counts against its account: {refused:?}");
    let here = shop.client_bound_to(&account, &["127.0.0.0/8"]).await;
    assert_eq!(here.get("/v1/pets").await.assert_status(200).rate().remaining, 58);
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
