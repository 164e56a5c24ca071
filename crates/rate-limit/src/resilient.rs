//! Limits in Redis, or in this process while Redis is unreachable. The gateway returns to Redis
//! automatically.
//!
//! [`breaker`] decides if a shard of Redis is asked, [`fallback`] decides on requests while it is not, and
//! [`watch`](ResilientLimiter::watch) notices outages and recoveries even without requests.

mod breaker;
mod fallback;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, mem, num::NonZeroU16, str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{
    TryFutureExt,
    future::{BoxFuture, join_all},
};
use parking_lot::Mutex;
use petstore_clock::{Clock, UnixMillis};
use petstore_telemetry::parts::FaultCause;
use tokio::time::{Instant, sleep};

use self::{
    breaker::{Breaker, Change, Moment},
    fallback::Fallback,
};
use super::{
    Decided, Decision, LimitKey, LimitStatus, LimiterUnavailable, Outcome, Quota, RateLimiter, RedisLimiter,
    Scope,
    policy::{self, Record, Window, Windows},
    redis::{RedisCallError, RedisMetrics, Shard},
};

/// Treatment of requests while Redis is unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRedisFailure {
    /// Each gateway limits by itself, to its share of the limits.
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
        f.write_str(&format!("{self:?}").to_ascii_lowercase())
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

/// Redis limiter with a fallback. A decision waits for Redis once, and no longer than the timeout of the
/// Redis limiter. After three failures in a row only probes are sent to Redis. Requests ask it again once it
/// has answered probes for a while. Each shard of a Cluster is judged separately. Nothing is counted in Redis
/// before the core has named the installation, which is when it first answers.
///
/// Requests of an address are counted in Redis only from the time at which half of this gateway's share of a
/// limit is used, so that strangers cannot fill it. Then Redis allows what is left of the limit. So each
/// other gateway may admit half a share more.
pub struct ResilientLimiter {
    redis: RedisLimiter,
    on_failure: OnRedisFailure,
    /// Breakers by the shard's node. A shard without one has never failed.
    breakers: Mutex<HashMap<Arc<str>, Breaker>>,
    /// Kinds of errors that were logged since a breaker last opened.
    told: Mutex<std::collections::HashSet<mem::Discriminant<RedisCallError>>>,
    fallback: Fallback,
    started: Instant,
    pub(super) metrics: RedisMetrics,
}

impl ResilientLimiter {
    /// Probes Redis, for a second at most, and starts with it or without it. While Redis is unreachable and
    /// limits are local, each of the `gateways` that count in it enforces its part of the limits. The names
    /// of metrics begin with the prefix.
    pub async fn start(
        redis: RedisLimiter,
        on_failure: OnRedisFailure,
        gateways: NonZeroU16,
        clock: Clock,
        metrics_prefix: &str,
    ) -> Self {
        let started = Instant::now();
        let first_try = redis.probe().await;
        report_evictions(first_try);
        let (fallback, metrics) = (Fallback::new(clock, gateways), RedisMetrics::with_prefix(metrics_prefix));
        let (breakers, told) = (Mutex::default(), Mutex::default());
        let limiter = Self { redis, on_failure, breakers, told, fallback, started, metrics };
        if first_try.is_err() {
            for shard in limiter.redis.shards().await {
                if limiter.redis.probe_once(&shard).await.is_err() {
                    let opened = Breaker::new(false, Duration::ZERO);
                    limiter.breakers.lock().insert(Arc::clone(&shard.node), opened);
                    limiter.note(&shard.node, Some(Change::Opened));
                }
            }
        }
        limiter
    }

    /// Probes Redis until `shutdown`. Without it, the limiter never returns to Redis.
    pub async fn watch(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let probe_often = async {
            loop {
                sleep(Duration::from_millis(200)).await;
                let shards = self.redis.shards().await;
                let is_gone = |node: &Arc<str>, _: &mut Breaker| !shards.iter().any(|it| it.node == *node);
                let gone: Vec<_> = self.breakers.lock().extract_if(is_gone).collect();
                for (node, _) in gone.iter().filter(|(_, breaker)| !breaker.is_closed()) {
                    self.note(node, Some(Change::Closed)); // other shards have its slots
                }
                let probes = shards.iter().map(async |shard| {
                    // Asks again immediately after a failure: three failures in a row must be detected within
                    // a second.
                    while !self.probe(shard).await && self.is_closed(shard) {}
                });
                join_all(probes).await;
                if let Some(error) = self.redis.last_error().filter(|_| self.is_degraded())
                    && self.told.lock().insert(mem::discriminant(&error))
                {
                    // Each reason once in an outage, even if they alternate.
                    tracing::warn!(%error, "Redis gives no decision for another reason than before");
                }
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = probe_often => {}
        }
    }

    /// Sets the name of the installation, whose counters gateways share. Before it is set, the limiter
    /// decides without them.
    pub fn set_installation(&self, name: &str) {
        self.redis.set_installation(name);
    }

    /// Returns `true` if the installation is named.
    pub fn knows_installation(&self) -> bool {
        self.redis.knows_installation()
    }

    /// Returns what happens to requests if decisions are made without the counters that all gateways share,
    /// because these, or those of a shard, are unreachable.
    pub fn fault(&self) -> Option<FaultCause> {
        self.is_degraded().then(|| match self.on_failure {
            _ if self.redis.last_error().is_some_and(|error| error.is_refusal()) => {
                FaultCause::LimiterRefused
            }
            OnRedisFailure::Local => FaultCause::LimiterLocal,
            OnRedisFailure::Open => FaultCause::LimiterOpen,
            OnRedisFailure::Closed => FaultCause::LimiterClosed,
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
        self.note(&shard.node, change);
        if change == Some(Change::Closed) {
            // It may be another Redis, or have a new configuration.
            report_evictions(self.counted(Box::pin(self.redis.probe())).await);
        }
        is_good
    }

    /// Returns `true` while a shard is not asked, because it does not answer.
    pub(super) fn is_degraded(&self) -> bool {
        self.breakers.lock().values().any(|breaker| !breaker.is_closed())
    }

    /// Returns `true` if the shard is asked.
    fn is_shared(&self, shard: &Shard) -> bool {
        self.redis.knows_installation() && self.is_closed(shard)
    }

    fn is_closed(&self, shard: &Shard) -> bool {
        self.breakers.lock().get(&shard.node).is_none_or(Breaker::is_closed)
    }

    /// Decides on a request of `limit_key`, and counts it if that `is_counted`: by Redis's answer, if Redis
    /// is asked and answers in time, and otherwise by this gateway's own counts or without counts.
    async fn decide(
        &self,
        is_counted: bool,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Decided<LimitStatus> {
        let shard = self.redis.shards.of(limit_key);
        // Requests of an address that Redis does not know, while Redis is asked; none for a key.
        let is_shared = matches!(limit_key, LimitKey::Address(_)) && self.is_shared(&shard);
        let first = is_shared.then(|| self.fallback.admitted(limit_key));
        if let Some(status) = first.and_then(|_| self.fallback.decide_first(is_counted, limit_key, quota)) {
            return Ok(status);
        }
        let left = left(quota, first);
        let whole = |status: LimitStatus| LimitStatus {
            decision: with_first(status.decision, first, quota),
            ..status
        };
        // An address that Redis refused before costs it nothing for the time of the refusal. A key has no
        // such memory, because its refused requests are counted as strikes.
        let seen = first.map(|_| self.fallback.as_seen(limit_key, left));
        if let Some(refused) = seen.filter(|seen| seen.decision.outcome != Outcome::Admitted) {
            return Ok(whole(refused));
        }
        let call: BoxFuture<'_, _> = if is_counted {
            let decision = self.redis.take_on(&shard, limit_key, left, settled_at);
            Box::pin(decision.map_ok(LimitStatus::from))
        } else {
            Box::pin(self.redis.inspect_on(&shard, limit_key, left, settled_at))
        };
        let asked_at = self.fallback.local_time();
        if let Ok(status) = self.call_redis(&shard, call).await {
            self.fallback.learn(limit_key, &status.decision, asked_at);
            return Ok(whole(status));
        }
        let status = match self.on_failure {
            OnRedisFailure::Local => self.fallback.decide(is_counted, limit_key, quota, settled_at),
            OnRedisFailure::Open => {
                let now = self.fallback.now();
                policy::decide(is_counted, Record::default(), quota, settled_at, now).0
            }
            OnRedisFailure::Closed => return Err(LimiterUnavailable),
        };
        self.metrics.decided_alone.inc();
        let decision = Decision { scope: Scope::Node, ..status.decision };
        Ok(LimitStatus { decision, ..status })
    }

    /// Returns the shard's answer to a request's question, if it is asked and answers in time.
    async fn call_redis<T>(&self, shard: &Shard, call: BoxFuture<'_, Decided<T>>) -> Decided<T> {
        if !self.is_shared(shard) {
            return Err(LimiterUnavailable);
        }
        let answer = self.counted(call).await;
        let change = self.breaker(shard, |breaker, now| breaker.asked(answer.is_ok(), now));
        self.note(&shard.node, change);
        answer
    }

    async fn counted<T>(&self, call: BoxFuture<'_, Decided<T>>) -> Decided<T> {
        let asked = Instant::now();
        let answer = call.await;
        self.metrics.answered(asked.elapsed(), answer.is_ok());
        answer
    }

    fn note(&self, node: &str, change: Option<Change>) {
        let node = Some(node).filter(|node| !node.is_empty());
        match change {
            None => {}
            Some(Change::Opened) => {
                self.metrics.outages.inc();
                let error = self.redis.last_error();
                *self.told.lock() = error.iter().map(mem::discriminant).collect();
                tracing::warn!(
                    policy = %self.on_failure,
                    node,
                    error = error.map(|error| error.to_string()),
                    "rate limits are not shared, because Redis gives no decision"
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
        Ok(self.decide(true, limit_key, quota, settled_at).await?.decision)
    }

    async fn inspect(
        &self,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Decided<LimitStatus> {
        self.decide(false, limit_key, quota, settled_at).await
    }
}

/// Returns what the first requests of an address leave of a limit; at least 1, because otherwise Redis is not
/// asked.
fn left(quota: Quota, first: Option<Windows>) -> Quota {
    let Windows { minute, day } = first.unwrap_or_default();
    let less = |limit: u64, used| limit.saturating_sub(used).max(1);
    Quota { per_minute: less(quota.per_minute, minute.used), per_day: less(quota.per_day, day.used) }
}

/// Adds the first requests of an address to a decision of the shared counters, which count the others.
fn with_first(decision: Decision, first: Option<Windows>, quota: Quota) -> Decision {
    let Some(first) = first.filter(|_| decision.scope == Scope::Shared) else { return decision };
    let shown = Windows::shown(decision.minute, decision.day);
    let (minute, day) = shown.combined(Window::plus, first).view(quota, decision.now.0);
    Decision { minute, day, ..decision }
}

/// Warns if a probe has found that Redis may evict counters.
fn report_evictions(probed: Decided<bool>) {
    if probed == Ok(true) {
        tracing::warn!(
            "Redis may evict counters when its memory is full, which resets limits: set maxmemory-policy \
             noeviction"
        );
    }
}
