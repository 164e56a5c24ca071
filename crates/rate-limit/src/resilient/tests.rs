use petstore_telemetry::metrics::Exposition;
use petstore_test_servers::{
    Logged, eventually,
    servers::{RedisOptions, RedisServer},
};
use tracing::Level;

use super::*;
use crate::{RedisDeadlines, RedisSettings};

const QUOTA: Quota = Quota { per_minute: 3, per_day: 10 };
const NEVER: UnixMillis = UnixMillis(0);
/// Timeout that a busy machine does not exceed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A limiter, its Redis and its metrics.
struct Fixture {
    limiter: Arc<ResilientLimiter>,
    redis: RedisServer,
    metrics: Exposition,
}

impl Fixture {
    async fn start(on_failure: OnRedisFailure) -> Self {
        let redis = RedisServer::start(RedisOptions::default()).await;
        let deadlines = RedisDeadlines::all(TIMEOUT);
        let settings = RedisSettings {
            urls: vec![redis.url().parse().unwrap()],
            key_prefix: "pet:",
            deadlines,
            clock: None,
        };
        let clock = Clock::manual(UnixMillis(1_795_200_000_000)).0;
        let shared = RedisLimiter::new(settings).unwrap();
        let limiter =
            Arc::new(ResilientLimiter::start(shared, on_failure, NonZeroU16::MIN, clock, "petstore_").await);
        let metrics = Exposition::default();
        metrics.add(crate::redis_metrics("petstore_", Some(&limiter)));
        Self { limiter, redis, metrics }
    }

    /// Returns the value of the metric `petstore_redis_…`.
    fn count(&self, metric: &str) -> u32 {
        let text = self.metrics.text();
        let name = format!("petstore_redis_{metric} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    }

    async fn take(&self, limit_key: &LimitKey) -> Decided<Decision> {
        self.limiter.take(limit_key, QUOTA, NEVER).await
    }
}

#[tokio::test]
async fn a_gateway_decides_alone_until_the_core_names_the_installation() {
    let fixture = Fixture::start(OnRedisFailure::Local).await;
    let limiter = &fixture.limiter;
    let account = LimitKey::Account(1);
    assert!(!limiter.knows_installation());
    for _ in 0..3 {
        assert_eq!(fixture.take(&account).await.unwrap().scope, Scope::Node);
    }
    assert_eq!(limiter.inspect(&account, QUOTA, NEVER).await.unwrap().decision.scope, Scope::Node);
    assert_eq!(["failures_total", "decided_alone_total"].map(|metric| fixture.count(metric)), [0, 4]);
    limiter.set_installation("äöü"); // no character of it may be in a key
    assert!(!limiter.knows_installation());
    limiter.set_installation("live-test");
    assert!(limiter.knows_installation() && !limiter.is_degraded());
    assert_eq!(fixture.take(&account).await.unwrap().scope, Scope::Shared);
}

#[tokio::test]
async fn three_failures_in_a_row_are_an_outage_until_redis_answers_probes() {
    let mut fixture = Fixture::start(OnRedisFailure::Local).await;
    fixture.limiter.set_installation("live-test");
    let account = LimitKey::Account(1);
    assert_eq!(fixture.take(&account).await.unwrap().scope, Scope::Shared);
    fixture.redis.kill9().await;
    for refused in [false, false, true] {
        let decision = fixture.take(&account).await.unwrap();
        assert_eq!((decision.scope, decision.outcome == Outcome::Admitted), (Scope::Node, !refused));
    }
    assert!(fixture.limiter.is_degraded());
    fixture.take(&account).await.unwrap(); // does not ask Redis
    let counts = ["failures_total", "outages_total", "decided_alone_total", "breaker_open"];
    assert_eq!(counts.map(|metric| fixture.count(metric)), [3, 1, 4, 1]);
    let watch = tokio::spawn(Arc::clone(&fixture.limiter).watch(Box::pin(std::future::pending())));
    eventually(TIMEOUT, async || match fixture.count("failures_total") {
        7.. => Ok(()),
        probed => Err(format!("{probed} failures")),
    })
    .await;
    assert_eq!(fixture.count("outages_total"), 1, "it is the same outage");
    fixture.redis.restart().await;
    eventually(TIMEOUT, async || {
        if fixture.limiter.is_degraded() { Err("it does not return to Redis".into()) } else { Ok(()) }
    })
    .await;
    watch.abort();
    assert!(watch.await.unwrap_err().is_cancelled());
    let shards = fixture.limiter.redis.shards().await;
    assert_eq!(fixture.count("breaker_open"), 0);
    assert_eq!(fixture.take(&account).await.unwrap().scope, Scope::Shared);
    let asked = fixture.count("round_trip_duration_seconds_count");
    assert!(fixture.limiter.probe(&shards[0]).await);
    assert_eq!(fixture.count("round_trip_duration_seconds_count"), asked + 1);
}

#[tokio::test]
async fn another_reason_for_an_outage_is_logged_once() {
    let mut fixture = Fixture::start(OnRedisFailure::Local).await;
    let (logged, mut levels) = (Logged::of("resilient"), Vec::new());
    let watch = tokio::spawn(Arc::clone(&fixture.limiter).watch(Box::pin(std::future::pending())));
    fixture.redis.cli(&["ACL", "SETUSER", "default", "-evalsha"]).await;
    eventually(TIMEOUT, async || {
        if fixture.limiter.is_degraded() { Ok(()) } else { Err("Redis still decides".into()) }
    })
    .await;
    assert_eq!(fixture.limiter.fault(), Some(FaultCause::LimiterRefused));
    for logs in 1..=2 {
        eventually(TIMEOUT, async || {
            levels.extend(logged.levels());
            if levels.len() < logs { Err("nothing is logged".into()) } else { Ok(()) }
        })
        .await;
        if logs == 1 {
            fixture.redis.kill9().await;
        }
    }
    assert_eq!(fixture.limiter.fault(), Some(FaultCause::LimiterLocal));
    sleep(Duration::from_secs(1)).await; // some probes
    levels.extend(logged.levels());
    // The first reason, and those of a server that is gone: no connection, or a late answer.
    assert!((2..=3).contains(&levels.len()) && levels.iter().all(|it| *it == Level::WARN), "{levels:?}");
    watch.abort();
}

#[test]
fn another_name_of_the_installation_is_logged_once() {
    let settings = RedisSettings {
        urls: vec!["redis://127.0.0.1:1".parse().unwrap()],
        key_prefix: "pet:",
        deadlines: RedisDeadlines::default(),
        clock: None,
    };
    let (limiter, logged) = (RedisLimiter::new(settings).unwrap(), Logged::of("rate_limit::redis"));
    for (name, expected) in [("a", vec![]), ("a", vec![]), ("b", vec![Level::WARN]), ("a", vec![])] {
        limiter.set_installation(name);
        assert_eq!(logged.levels(), expected, "{name}");
    }
}

#[tokio::test]
async fn without_redis_all_requests_are_admitted_or_all_refused_if_the_operator_says_so() {
    for on_failure in [OnRedisFailure::Open, OnRedisFailure::Closed] {
        let mut fixture = Fixture::start(on_failure).await;
        fixture.limiter.set_installation("live-test");
        fixture.redis.kill9().await;
        let account = LimitKey::Account(1);
        for _ in 0..=QUOTA.per_minute {
            let expected = match on_failure {
                OnRedisFailure::Open => Ok((Outcome::Admitted, Scope::Node)),
                _ => Err(LimiterUnavailable),
            };
            let taken = fixture.take(&account).await;
            assert_eq!(taken.map(|decision| (decision.outcome, decision.scope)), expected);
            let peeked = fixture.limiter.peek(&account, QUOTA).await;
            assert_eq!(peeked.map(|decision| (decision.outcome, decision.scope)), expected);
        }
    }
}

#[tokio::test]
async fn redis_is_not_asked_about_an_address_that_it_refused_and_about_an_account_it_is() {
    let fixture = Fixture::start(OnRedisFailure::Local).await;
    fixture.limiter.set_installation("live-test");
    let address = LimitKey::Address("192.0.2.1".parse::<std::net::IpAddr>().unwrap().into());
    for (limit_key, further_questions) in [(address, 0), (LimitKey::Account(1), 2)] {
        for _ in 0..=QUOTA.per_minute {
            fixture.take(&limit_key).await.unwrap();
        }
        let asked = fixture.count("round_trip_duration_seconds_count");
        let refused = fixture.take(&limit_key).await.unwrap();
        let seen = fixture.limiter.peek(&limit_key, QUOTA).await.unwrap();
        for decision in [refused, seen] {
            assert!(decision.outcome != Outcome::Admitted && decision.scope == Scope::Shared);
        }
        assert_eq!(fixture.count("round_trip_duration_seconds_count") - asked, further_questions);
    }
}

#[test]
fn the_treatment_of_requests_without_redis_is_written_and_read_by_its_name() {
    for (name, policy) in
        [("local", OnRedisFailure::Local), ("open", OnRedisFailure::Open), ("closed", OnRedisFailure::Closed)]
    {
        assert_eq!((policy.to_string().as_str(), name.parse()), (name, Ok(policy)));
    }
    assert_eq!("Open".parse::<OnRedisFailure>(), Err("must be local, open or closed"));
}
