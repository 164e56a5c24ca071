//! Limits in Redis, or in this process while Redis is unreachable. The gateway returns to Redis
//! automatically.
//!
//! [`breaker`] decides if a shard of Redis is asked, [`fallback`] decides on requests while it is not, and
//! [`watch`](ResilientLimiter::watch) notices outages and recoveries even without requests.

mod breaker;
mod fallback;
mod metrics;

use std::{collections::HashMap, fmt, num::NonZeroU16, str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use petstore_clock::{Clock, UnixMillis};
use tokio::time::{Instant, sleep};

pub use self::metrics::redis_metrics;
use self::{
    breaker::{Breaker, Change, Moment},
    fallback::Fallback,
    metrics::RedisMetrics,
};
use super::{
    Decided, Decision, LimitKey, LimitStatus, LimiterUnavailable, Outcome, Quota, RateLimiter, RedisLimiter,
    Scope,
    policy::{self, Record},
    redis::Shard,
};

/// Treatment of requests while Redis is unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRedisFailure {
    /// Each gateway limits on its own, to its share of the limits.
    #[default]
    Local,
    /// All requests are admitted, with every plan.
    Open,
    /// All requests are refused: 503 `LIMITER_UNAVAILABLE`.
    Closed,
}

/// Writes `local`, `open` or `closed`.
impl fmt::Display for OnRedisFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        })
    }
}

impl FromStr for OnRedisFailure {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        [Self::Local, Self::Open, Self::Closed]
            .into_iter()
            .find(|policy| policy.to_string() == written)
            .ok_or("must be local, open or closed")
    }
}

/// Settings of an operator for the time without Redis.
#[derive(Clone, Copy, Debug)]
pub struct ResilienceSettings {
    /// Treatment of requests.
    pub on_failure: OnRedisFailure,
    /// Number of gateways that share the counters. Each enforces its part of the limits.
    pub gateways: NonZeroU16,
}

/// Redis limiter with a fallback. A decision waits for Redis once, and no longer than the timeout of the
/// Redis limiter. After three failures in a row only probes are sent to Redis. Requests ask it again once it
/// has answered probes for a while. Each shard of a Cluster is judged separately. Nothing is counted in Redis
/// before the core has named the installation, which is when it first answers.
#[derive(Debug)]
pub struct ResilientLimiter {
    redis: RedisLimiter,
    settings: ResilienceSettings,
    /// Breakers by the shard's node. A shard without one has never failed.
    breakers: Mutex<HashMap<Arc<str>, Breaker>>,
    fallback: Fallback,
    started: Instant,
    metrics: RedisMetrics,
}

impl ResilientLimiter {
    /// Probes Redis, for a second at most, and starts with it or without it.
    pub fn start(
        redis: RedisLimiter,
        settings: ResilienceSettings,
        clock: Clock,
    ) -> BoxFuture<'static, Self> {
        // In a box, so that it is compiled with this crate.
        Box::pin(async move {
            let started = Instant::now();
            let first_try = redis.probe().await;
            report_evictions(first_try);
            let limiter = Self {
                redis,
                settings,
                breakers: Mutex::default(),
                fallback: Fallback::new(clock, settings.gateways),
                started,
                metrics: RedisMetrics::default(),
            };
            if first_try.is_err() {
                for shard in limiter.redis.shards().await {
                    if limiter.redis.probe_once(&shard).await.is_err() {
                        let opened = Breaker::new(false, Duration::ZERO);
                        limiter.breakers.lock().insert(Arc::clone(&shard.node), opened);
                        limiter.note(&shard, Some(Change::Opened));
                    }
                }
            }
            limiter
        })
    }

    /// Probes Redis until `shutdown`. Without it, the limiter never returns to Redis.
    pub fn watch(self: Arc<Self>, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let probe_often = async move {
            loop {
                sleep(Duration::from_millis(200)).await;
                let shards = self.redis.shards().await;
                self.breakers.lock().retain(|node, _| shards.iter().any(|shard| shard.node == *node));
                let probes = shards.iter().map(async |shard| {
                    // Asks again immediately after a failure: three failures in a row must be detected within
                    // a second.
                    while !self.probe(shard).await && self.is_closed(shard) {}
                });
                join_all(probes).await;
            }
        };
        // In a box, so that it is compiled with this crate.
        Box::pin(async move {
            tokio::select! {
                () = shutdown => {}
                () = probe_often => {}
            }
        })
    }

    /// Probes a shard without a request, and returns `true` if it answered. The probe writes, because a Redis
    /// that only reads is of no use.
    async fn probe(&self, shard: &Shard) -> bool {
        let asked_at = self.fallback.local_time();
        let answer = self.counted(Box::pin(self.redis.probe_once(shard))).await;
        if let Ok(now) = answer {
            self.fallback.learn_time(now, asked_at); // also when no requests come, and when a clock was set
        }
        let is_good = answer.is_ok();
        let change = self.breaker(shard, |breaker, now| breaker.probed(is_good, now));
        self.note(shard, change);
        if change == Some(Change::Closed) {
            // It may be another Redis, or have a new configuration.
            report_evictions(self.counted(Box::pin(self.redis.probe())).await);
        }
        is_good
    }

    /// Returns `true` if the shard is asked.
    fn is_shared(&self, shard: &Shard) -> bool {
        self.redis.knows_installation() && self.is_closed(shard)
    }

    fn is_closed(&self, shard: &Shard) -> bool {
        self.breakers.lock().get(&shard.node).is_none_or(Breaker::is_closed)
    }

    /// Returns Redis's answer to an address that it refused before, for the time of the refusal: such an
    /// address costs Redis nothing. A key has no such memory, because its refused requests are counted as
    /// strikes.
    fn remembered(&self, shard: &Shard, limit_key: &LimitKey, quota: Quota) -> Option<LimitStatus> {
        if !matches!(limit_key, LimitKey::Address(_)) || !self.is_shared(shard) {
            return None;
        }
        let seen = self.fallback.as_seen(limit_key, quota);
        Some(seen).filter(|seen| seen.decision.outcome != Outcome::Admitted)
    }

    /// Returns Redis's answer about the key, if Redis is asked and answers in time. Otherwise the request is
    /// decided without Redis: `locally` by this gateway's own counts, or `openly` without counts.
    async fn decide<T>(
        &self,
        shard: &Shard,
        limit_key: &LimitKey,
        call: BoxFuture<'_, Decided<T>>,
        decision: fn(&T) -> &Decision,
        locally: impl FnOnce(&Fallback) -> T,
        openly: impl FnOnce(UnixMillis) -> T,
    ) -> Decided<T> {
        let asked_at = self.fallback.local_time();
        if let Ok(answer) = self.call_redis(shard, call).await {
            self.fallback.learn(limit_key, decision(&answer), asked_at);
            return Ok(answer);
        }
        let decided = match self.settings.on_failure {
            OnRedisFailure::Local => locally(&self.fallback),
            OnRedisFailure::Open => openly(self.fallback.now()),
            OnRedisFailure::Closed => return Err(LimiterUnavailable),
        };
        self.metrics.decided_alone.inc();
        Ok(decided)
    }

    /// Returns the shard's answer to a request's question, if it is asked and answers in time.
    async fn call_redis<T>(&self, shard: &Shard, call: BoxFuture<'_, Decided<T>>) -> Decided<T> {
        if !self.is_shared(shard) {
            return Err(LimiterUnavailable);
        }
        let answer = self.counted(call).await;
        let change = self.breaker(shard, |breaker, now| breaker.asked(answer.is_ok(), now));
        self.note(shard, change);
        answer
    }

    async fn counted<T>(&self, call: BoxFuture<'_, Decided<T>>) -> Decided<T> {
        let asked = Instant::now();
        let answer = call.await;
        self.metrics.answered(asked.elapsed(), answer.is_ok());
        answer
    }

    fn note(&self, shard: &Shard, change: Option<Change>) {
        let node = Some(&*shard.node).filter(|node| !node.is_empty());
        match change {
            None => {}
            Some(Change::Opened) => {
                self.metrics.outages.inc();
                let error = self.redis.last_error().map(|error| error.to_string()).unwrap_or_default();
                let policy = self.settings.on_failure;
                tracing::warn!(
                    %policy,
                    node,
                    error,
                    "rate limits are not shared, because Redis is unreachable"
                );
            }
            Some(Change::Closed) => tracing::info!(node, "rate limits are shared again"),
        }
    }

    fn breaker<T>(&self, shard: &Shard, report: impl FnOnce(&mut Breaker, Moment) -> T) -> T {
        let (mut breakers, now) = (self.breakers.lock(), self.started.elapsed());
        let breaker = match breakers.get_mut(&shard.node) {
            Some(breaker) => breaker,
            None => breakers.entry(Arc::clone(&shard.node)).or_insert_with(|| Breaker::new(true, now)),
        };
        report(breaker, now)
    }
}

#[async_trait]
impl RateLimiter for ResilientLimiter {
    async fn take(&self, limit_key: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<Decision> {
        let shard = self.redis.shard_of(limit_key);
        if let Some(refused) = self.remembered(&shard, limit_key, quota) {
            return Ok(refused.decision);
        }
        self.decide(
            &shard,
            limit_key,
            Box::pin(self.redis.take_on(&shard, limit_key, quota, settled_at)),
            |decision| decision,
            |fallback| fallback.take(limit_key, quota, settled_at),
            |now| on_its_own(policy::take(Record::default(), quota, settled_at, now).0),
        )
        .await
    }

    async fn inspect(
        &self,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Decided<LimitStatus> {
        let shard = self.redis.shard_of(limit_key);
        if let Some(refused) = self.remembered(&shard, limit_key, quota) {
            return Ok(refused);
        }
        self.decide(
            &shard,
            limit_key,
            Box::pin(self.redis.inspect_on(&shard, limit_key, quota, settled_at)),
            |limit_status| &limit_status.decision,
            |fallback| fallback.inspect(limit_key, quota, settled_at),
            |now| {
                let limit_status = policy::inspect(Record::default(), quota, settled_at, now);
                LimitStatus { decision: on_its_own(limit_status.decision), ..limit_status }
            },
        )
        .await
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn set_installation(&self, name: &str) {
        self.redis.set_installation(name);
    }

    fn knows_installation(&self) -> bool {
        self.redis.knows_installation()
    }

    fn is_degraded(&self) -> bool {
        self.breakers.lock().values().any(|breaker| !breaker.is_closed())
    }
}

/// Marks the decision of a gateway that decides without the shared counters.
fn on_its_own(decision: Decision) -> Decision {
    Decision { scope: Scope::Node, ..decision }
}

/// Warns if a probe has found that Redis may evict counters.
fn report_evictions(probed: Decided<bool>) {
    if probed == Ok(true) {
        tracing::warn!(
            "Redis may drop counters when its memory is full, and with them hand out quota anew: \
             set maxmemory-policy noeviction"
        );
    }
}

#[cfg(test)]
mod tests {
    use petstore_telemetry::metrics::Exposition;
    use petstore_test_servers::{
        eventually,
        servers::{RedisOptions, RedisServer},
    };

    use super::*;
    use crate::rate_limit::{RedisDeadlines, RedisSettings};

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
            let settings = RedisSettings { urls: vec![redis.url().parse().unwrap()], deadlines, clock: None };
            let resilience = ResilienceSettings { on_failure, gateways: NonZeroU16::MIN };
            let clock = Clock::manual(UnixMillis(1_795_200_000_000)).0;
            let shared = RedisLimiter::new(settings).unwrap();
            let limiter = Arc::new(ResilientLimiter::start(shared, resilience, clock).await);
            let metrics = Exposition::default();
            metrics.add(redis_metrics(Some(&limiter)));
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
        assert!(limiter.is_remote() && !limiter.knows_installation());
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
        for (name, policy) in [
            ("local", OnRedisFailure::Local),
            ("open", OnRedisFailure::Open),
            ("closed", OnRedisFailure::Closed),
        ] {
            assert_eq!((policy.to_string().as_str(), name.parse()), (name, Ok(policy)));
        }
        assert_eq!("Open".parse::<OnRedisFailure>(), Err("must be local, open or closed"));
    }
}
