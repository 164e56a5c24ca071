//! Several installations on one Redis.

use petstore_testkit::{
    Plan, SharedCounters, TestShop,
    servers::{RedisOptions, RedisServer},
};

#[tokio::test]
async fn two_installations_on_one_redis_count_separately() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let counters = SharedCounters::by_clock(&[redis.url()]);
    let production = TestShop::open_on(&counters, 2, &[]).await;
    let copy = TestShop::open_on(&counters, 1, &[]).await;
    let staging = TestShop::open_on(&counters, 1, &["--environment", "staging"]).await;

    let client = production.client_on(Plan::Free).await;
    for (gateway, remaining) in production.gateways().into_iter().zip([59, 58]) {
        let answer = client.at(gateway).get("/v1/pets").await;
        assert_eq!(answer.assert_status(200).rate().remaining, remaining, "{answer:?}");
    }
    let strangers = production.anonymous().sends(600, "/v1/pets").await;
    assert_eq!(strangers[599].assert_status(401).rate().remaining, 0, "{strangers:?}");
    for other in [&copy, &staging] {
        let namesake = other.client_on(Plan::Free).await; // of the account with the same number
        let answer = namesake.get("/v1/pets").await;
        assert_eq!(answer.assert_status(200).rate().remaining, 59, "{answer:?}");
        let strangers = other.anonymous().sends(301, "/v1/pets").await; // the last one is counted in Redis
        assert_eq!(strangers[300].assert_status(401).rate().remaining, 299, "{strangers:?}");
    }
}
