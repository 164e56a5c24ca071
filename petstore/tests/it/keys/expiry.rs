//! The end of a key, as its caller is told.

use std::time::Duration;

use petstore_core::accounts::Quota;
use petstore_testkit::{Answer, Client, Plan, TestShop};

use super::within_five_seconds;

const EXPIRES: &str = "x-api-key-expires";

#[tokio::test]
async fn every_response_to_a_key_that_expires_tells_its_end() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let account = shop.account_on(Plan::Enterprise(Quota { per_minute: 7, per_day: 1_000 })).await;
    let client = shop.client_expiring(&account, Duration::from_millis(3_600_900)).await;
    for (method, path, status) in [
        ("GET", "/v1/pets", 200),
        ("HEAD", "/v1/pets", 200),
        ("GET", "/v1/pets/1", 404),
        ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/pets", 405),
        ("POST", "/v1/pets", 400),
        ("GET", "/v1/pets?limit=0", 400),
        ("GET", "/v1/pets", 429),
        ("GET", "/v1/usage", 200),
    ] {
        let answer = client.send(method, path, &[], "").await;
        answer.assert_status(status);
        assert_eq!(answer.header(EXPIRES), "Fri, 20 Nov 2026 11:00:00 GMT", "{method} {path}: {answer:?}");
    }
    assert_eq!(client.send("OPTIONS", "/v1/pets", &[], "").await.find(EXPIRES), None, "it needs no key");
    shop.advance(Duration::from_secs(3_601));
    let expired = client.get("/v1/pets").await;
    expired.assert_error(401, "API_KEY_EXPIRED");
    assert_eq!(expired.find(EXPIRES), None, "{expired:?}");
}

#[tokio::test]
async fn after_a_rotation_the_callers_of_the_old_key_see_its_end_within_five_seconds() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let old = shop.client_on(Plan::Business).await;
    assert_eq!(old.get("/v1/pets").await.assert_status(200).find(EXPIRES), None);
    let new = shop.rotate(&old, Duration::from_hours(24)).await;
    let answer = within_five_seconds(&old, |answer: &Answer| answer.find(EXPIRES).is_some()).await;
    assert_eq!(answer.assert_status(200).header(EXPIRES), "Sat, 21 Nov 2026 10:00:00 GMT");
    assert_eq!(shown(&old).await["expireTime"], "2026-11-21T10:00:00Z");
    assert_eq!(new.get("/v1/pets").await.assert_status(200).find(EXPIRES), None);
    assert_ne!(shown(&new).await["id"], shown(&old).await["id"]);
}

/// Returns the key that `GET /v1/usage` shows.
async fn shown(client: &Client) -> serde_json::Value {
    client.get("/v1/usage").await.assert_status(200).json()["key"].clone()
}
