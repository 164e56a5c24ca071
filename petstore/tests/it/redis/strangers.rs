//! Callers without a key, on gateways that share their counters.

use petstore_testkit::{
    Client, SharedCounters, TestShop,
    servers::{RedisOptions, RedisServer},
};

use super::all_limiters_are;

const FLAGS: [&str; 2] = ["--trusted-proxy", "127.0.0.1"];

async fn keys(redis: &RedisServer) -> usize {
    redis
        .cli(&["KEYS", "*"])
        .await
        .lines()
        .filter(|key| !key.trim().is_empty() && !key.contains("probe"))
        .count()
}

fn from(client: &Client, address: &str) -> Client {
    client.with_header("x-forwarded-for", address)
}

#[tokio::test]
async fn addresses_far_from_their_limit_make_no_key_in_redis() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 2, &FLAGS).await;
    all_limiters_are(&shop, "ok").await;
    shop.client_with(10, 100).await.get("/v1/pets").await.assert_status(200);
    let before = keys(&redis).await;
    assert_eq!(before, 1, "the account's");
    for host in 0..200 {
        let stranger = from(&shop.anonymous(), &format!("203.0.113.{host}"));
        stranger.get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");
        stranger.with_key("x").get("/v1/pets").await.assert_error(401, "INVALID_API_KEY");
        stranger.send("OPTIONS", "/v1/pets", &[], "").await.assert_status(204);
    }
    assert_eq!(keys(&redis).await, before);
}

/// Half of one of two gateways' share is 150.
#[tokio::test]
async fn an_address_is_counted_by_its_gateway_and_then_in_redis_and_both_hold_the_limit() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 2, &FLAGS).await;
    all_limiters_are(&shop, "ok").await;
    let [one, other] = shop.gateways()[..] else { panic!("two gateways") };
    let stranger = |gateway| from(&shop.anonymous().at(gateway), "203.0.113.7");
    for left in (0..600).rev() {
        let answer = stranger(one).get("/v1/pets").await;
        answer.assert_error(401, "MISSING_API_KEY");
        assert_eq!((answer.rate().limit, answer.rate().remaining), (600, left), "{answer:?}");
        assert_eq!(answer.find("x-ratelimit-scope"), None, "{answer:?}");
        if left == 450 {
            assert_eq!(keys(&redis).await, 0);
        }
    }
    assert_eq!(keys(&redis).await, 1);
    let over = stranger(one).get("/v1/pets").await;
    over.assert_error(429, "RATE_LIMITED");
    assert_eq!((over.rate().limit, over.rate().remaining, over.retry_after()), (600, 0, 60), "{over:?}");
    let shown = stranger(one).send("OPTIONS", "/v1/pets", &[], "").await;
    assert_eq!((shown.rate().limit, shown.rate().remaining), (600, 0), "{shown:?}");
    // The other gateway admits what it counts itself, and then sees the count of the first.
    let answers = stranger(other).sends(151, "/v1/pets").await;
    let (last, before) = answers.split_last().unwrap();
    assert!(before.iter().all(|answer| answer.status() == 401), "{:?}", before.last());
    last.assert_error(429, "RATE_LIMITED");
    shop.advance(std::time::Duration::from_mins(1));
    assert_eq!(stranger(one).get("/v1/pets").await.assert_status(401).rate().remaining, 599);
}
