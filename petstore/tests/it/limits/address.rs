//! Callers without a valid key: the limit of their address.

use std::time::Duration;

use petstore_testkit::{Client, Plan, Rate, TestShop};

const POLICY: &str = r#""minute";q=600;w=60, "day";q=100000;w=86400"#;

#[tokio::test]
async fn a_refused_credential_shows_and_consumes_the_limit_of_the_address() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let first = shop.anonymous().get("/v1/pets").await;
    first.assert_error(401, "MISSING_API_KEY");
    assert_eq!(first.rate(), Rate { limit: 600, remaining: 599, reset: shop.unix_secs() + 60 }, "{first:?}");
    assert_eq!(first.header("ratelimit-policy"), POLICY, "{first:?}");
    assert_eq!(first.header("ratelimit"), r#""minute";r=599;t=60, "day";r=99999;t=50400"#, "{first:?}");
    let second = shop.anonymous().with_key("x").get("/v1/pets").await;
    assert_eq!(second.assert_error(401, "INVALID_API_KEY").rate().remaining, 598, "{second:?}");
}

#[tokio::test]
async fn the_601st_refused_credential_of_a_minute_is_a_429_while_valid_keys_are_unaffected() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let refused = shop.anonymous().sends(600, "/v1/pets").await;
    assert!(refused.iter().all(|answer| answer.status() == 401), "{:?}", refused.last());
    for stranger in [shop.anonymous(), shop.anonymous().with_key("x")] {
        let answer = stranger.get("/v1/pets").await;
        answer.assert_error(429, "RATE_LIMITED");
        assert_eq!(answer.retry_after(), 60, "{answer:?}");
        let said = "the limit of 600 failed attempts to authenticate per minute is used up; it resets at ";
        assert!(answer.message().starts_with(said), "{answer:?}");
        assert_eq!(
            answer.rate(),
            Rate { limit: 600, remaining: 0, reset: shop.unix_secs() + 60 },
            "{answer:?}"
        );
    }
    let first_use = client.get("/v1/pets").await;
    assert_eq!(first_use.assert_status(200).rate().remaining, 59, "{first_use:?}");
    shop.advance(Duration::from_mins(1));
    shop.anonymous().get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_client_is_the_rightmost_untrusted_address() {
    let shop =
        TestShop::open_with(&["--trusted-proxy", "127.0.0.1/32", "--trusted-proxy", "10.0.0.0/8"]).await;
    let stranger = |forwarded_for: &str| shop.anonymous().with_header("x-forwarded-for", forwarded_for);
    assert_eq!(remaining(&stranger("203.0.113.1")).await, 599);
    assert_eq!(remaining(&stranger("203.0.113.2")).await, 599);
    assert_eq!(
        remaining(&stranger("198.51.100.9, 203.0.113.1")).await,
        598,
        "what a client claims is not believed"
    );
    assert_eq!(remaining(&stranger("203.0.113.1, 10.1.2.3")).await, 597, "a trusted hop is passed over");
    let two_fields = stranger("198.51.100.9").with_header("x-forwarded-for", "203.0.113.1");
    assert_eq!(remaining(&two_fields).await, 596, "fields are joined in their order");
}

async fn remaining(stranger: &Client) -> u64 {
    stranger.get("/v1/pets").await.assert_error(401, "MISSING_API_KEY").rate().remaining
}
