//! Bans of clients that ignore 429.

use std::time::Duration;

use petstore_testkit::{Client, Plan, Rate, TestShop};

/// Strikes that are forgiven on the plan Free: max(100, 2 × 60).
const FORGIVEN: usize = 120;

#[tokio::test]
async fn a_client_that_ignores_429_is_banned_for_five_minutes() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let client = shop.client_on(Plan::Free).await;
    run_into_429(&shop, &client).await;
    let strikes = client.sends(FORGIVEN, "/v1/pets").await;
    assert!(strikes.iter().all(|answer| answer.json()["code"] == "RATE_LIMITED"), "{:?}", strikes.last());
    client.get("/v1/pets").await.assert_status(429); // one more than is forgiven
    let banned = client.get("/v1/pets").await;
    banned.assert_error(429, "API_KEY_BANNED");
    assert_eq!(banned.rate(), Rate { limit: 60, remaining: 0, reset: shop.unix_secs() + 300 }, "{banned:?}");
    assert_eq!(banned.retry_after(), 300, "{banned:?}");
    assert!(banned.message().contains("2026-11-20T10:05:01Z"), "{banned:?}");

    shop.advance(Duration::from_millis(299_999));
    client.sends(5, "/v1/pets").await.last().unwrap().assert_error(429, "API_KEY_BANNED"); // no extension
    shop.advance(Duration::from_millis(1));
    client.get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn a_ban_applies_to_the_key_and_not_to_its_account() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Free).await;
    let (bad, good) = (shop.client_of(&account).await, shop.client_of(&account).await);
    run_into_429(&shop, &bad).await;
    bad.sends(FORGIVEN + 1, "/v1/pets").await;
    shop.advance(Duration::from_mins(1));
    bad.get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
    let answer = good.get("/v1/pets").await;
    assert_eq!(answer.assert_status(200).rate().remaining, 59, "a banned request counts nothing: {answer:?}");
}

/// Uses up the minute, is refused once, and waits for the end of the second in which refusals are forgiven.
async fn run_into_429(shop: &TestShop, client: &Client) {
    client.sends(60, "/v1/pets").await;
    client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    shop.advance(Duration::from_secs(1));
}
