//! Tests of the records in Redis: their keys, content and expiry.

use std::{net::IpAddr, time::Duration};

use futures_util::future::join_all;
use petstore_test_servers::servers::{RedisCluster, RedisOptions, RedisServer};

use super::{AMPLE, NEVER, named, patient_limiter, settings};
use crate::{LimitKey, Outcome, Quota, RateLimiter, RedisLimiter, conformance_tests::key};

const HOUR: i64 = 3_600_000;

/// Every key that a gateway writes, with its type and its value: big-endian numbers, times in Unix
/// milliseconds. Gateways of two releases share these records during a rollout, so no release of version 1
/// changes this text (docs/contract.md, 6.2.3; migrations/README.md).
///
/// - Windows of an account, its requests for usage, an address or a probe: start of the minute (6 bytes),
///   requests in it (5), start of the day (6), requests in it (5), end of the abuse state of its keys (6).
/// - Abuse state of a key: start of the refused period (6), its end (6), start of the strikes (6), their end
///   (6), number of strikes (5).
const RECORDS: &str = "\
pet:live-test:{192.0.2.1} string 01a1fa4225dc000000000101a1f640bc000000000001000000000000
pet:live-test:{1} string 01a1fa422000000000000201a1f640bc00000000000201a1fa4c37fc
pet:live-test:{1}/strikes/1/any string 01a1fa42200001a1fa430a6001a1fa4225dc01a1fa4b4d9c0000000001
pet:live-test:{1}/usage string 01a1fa4225dc000000000101a1f640bc000000000001000000000000
pet:live-test:{2001:db8::/64} string 01a1fa4225dc000000000101a1f640bc000000000001000000000000
pet:{probe} string 01a1fa4225dc000000000101a1f640bc000000000001000000000000
";

/// Script that lists all keys, their types and values.
const LIST: &str = "
    local lines = {}
    for i, key in ipairs(redis.call('KEYS', '*')) do
        local value = redis.call('GET', key):gsub('.', function(byte) return ('%02x'):format(byte:byte()) end)
        lines[i] = key .. ' ' .. redis.call('TYPE', key).ok .. ' ' .. value
    end
    table.sort(lines)
    return lines";

#[tokio::test]
async fn records_keep_the_form_that_other_releases_read_and_write() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, hand) = patient_limiter(&[redis.url()]);
    let quota = Quota { per_minute: 2, per_day: 9 };
    let take = async |limit_key: &LimitKey| limiter.take(limit_key, quota, NEVER).await.unwrap();
    for _ in 0..3 {
        take(&key(1, "any")).await;
    }
    hand.advance(Duration::from_millis(1_500));
    take(&key(1, "any")).await; // a strike
    take(&LimitKey::Usage(1)).await;
    for address in ["192.0.2.1", "2001:db8::1"] {
        take(&LimitKey::Address(address.parse::<IpAddr>().unwrap().into())).await;
    }
    limiter.probe().await.unwrap();
    assert_eq!(redis.cli(&["EVAL", LIST, "0"]).await + "\n", RECORDS);
}

#[tokio::test]
async fn an_idle_callers_counters_expire_after_the_day() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, _) = patient_limiter(&[redis.url()]); // 18:40 UTC
    let (one, other) = (key(1, "any"), key(2, "any"));
    limiter.take(&one, AMPLE, NEVER).await.unwrap();
    let at_once = [&other; 3].map(|limit_key| limiter.take(limit_key, AMPLE, NEVER));
    assert!(join_all(at_once).await.iter().all(Result::is_ok));
    for kept in ["pet:live-test:{1}", "pet:live-test:{2}"] {
        let left = ttl(&redis, kept).await;
        let until_midnight_and_a_day = 24 * HOUR + 19_200_000;
        let expected = until_midnight_and_a_day - 60_000..=until_midnight_and_a_day;
        assert!(expected.contains(&left), "{kept}: {left} ms");
    }
}

#[tokio::test]
async fn the_counters_of_an_address_expire_soon() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, _) = patient_limiter(&[redis.url()]);
    let address = LimitKey::Address("192.0.2.1".parse::<IpAddr>().unwrap().into());
    let quota = Quota { per_minute: 600, per_day: 100_000 };
    for requests in [1, 100] {
        for _ in 0..requests {
            limiter.take(&address, quota, NEVER).await.unwrap();
        }
        let left = ttl(&redis, "pet:live-test:{192.0.2.1}").await;
        let at_most = 120_000 + 864 * 101;
        assert!((60_000..=at_most).contains(&left), "{left} ms");
    }
}

#[tokio::test]
async fn abuse_state_is_stored_only_while_it_matters() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, _) = patient_limiter(&[redis.url()]);
    let quota = Quota { per_minute: 1, per_day: 9 };
    limiter.take(&key(1, "any"), quota, NEVER).await.unwrap();
    assert_eq!(redis.cli(&["KEYS", "*"]).await, "pet:live-test:{1}");
    limiter.take(&key(1, "any"), quota, NEVER).await.unwrap();
    let left = ttl(&redis, "pet:live-test:{1}/strikes/1/any").await;
    assert!((60_000..=120_000).contains(&left), "the refused period and a minute: {left} ms");
}

#[tokio::test]
async fn time_is_that_of_redis() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = named(RedisLimiter::new(settings([&redis.url()])).unwrap());
    let secs = async || -> u64 { redis.cli(&["TIME"]).await.lines().next().unwrap().parse().unwrap() };
    let before = secs().await;
    let decision = loop {
        if let Ok(decision) = limiter.take(&key(1, "any"), AMPLE, NEVER).await {
            break decision;
        }
    };
    assert_eq!(decision.outcome, Outcome::Admitted);
    assert!((before..=secs().await).contains(&decision.now.as_secs()));
}

#[tokio::test]
async fn a_probe_detects_an_eviction_policy() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, _) = patient_limiter(&[redis.url()]);
    assert_eq!(limiter.probe().await, Ok(false));
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]).await;
    assert_eq!(limiter.probe().await, Ok(true));

    let cluster = RedisCluster::start(3).await;
    let (limiter, _) = patient_limiter(&cluster.urls());
    assert_eq!(limiter.probe().await, Ok(false));
    cluster.nodes()[2].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    assert_eq!(limiter.probe().await, Ok(true));
}

async fn ttl(redis: &RedisServer, key: &str) -> i64 {
    redis.cli(&["PTTL", key]).await.parse().unwrap()
}
