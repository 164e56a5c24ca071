//! Costs of requests in the Redis that all gateways count in.

use std::time::{Duration, Instant};

use petstore_testkit::{
    SharedCounters, TestShop,
    servers::{RedisOptions, RedisServer},
};

/// Number of probes of Redis per second.
const PROBES: u64 = 5;

/// Maximum number of requests that may cost Redis anything, a quarter of all.
const FEW: u64 = 150;

#[tokio::test]
async fn a_refused_address_costs_redis_nothing_until_its_window_ends() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 1, &[]).await;
    let stranger = shop.anonymous();
    stranger.sends(600, "/v1/pets").await.last().unwrap().assert_status(401);
    let first = stranger.get("/v1/pets").await;
    first.assert_error(429, "RATE_LIMITED");

    let (begin, before) = (Instant::now(), steps(&redis).await);
    shop.advance(Duration::from_secs(20));
    for _ in 0..300 {
        let refused = stranger.get("/v1/pets").await;
        refused.assert_error(429, "RATE_LIMITED");
        assert_eq!((refused.rate(), refused.retry_after()), (first.rate(), 40), "{refused:?}");
        let preflight = stranger.send("OPTIONS", "/v1/pets", &[], "").await;
        assert_eq!(preflight.assert_status(204).rate(), first.rate(), "{preflight:?}");
    }
    let spent = steps(&redis).await - before;
    let took = begin.elapsed();
    assert!(spent < FEW + PROBES * (took.as_secs() + 1), "{spent} steps for 600 requests, in {took:?}");

    shop.advance(Duration::from_secs(40));
    let next = stranger.get("/v1/pets").await;
    assert_eq!(next.assert_status(401).rate().remaining, 599, "{next:?}");
}

/// Returns the number of scripts that Redis was asked to run.
async fn steps(redis: &RedisServer) -> u64 {
    let stats = redis.cli(&["INFO", "commandstats"]).await;
    let calls = |line: &str| -> Option<u64> {
        line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok()
    };
    stats.lines().find_map(calls).expect("the script was run")
}
