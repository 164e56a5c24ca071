//! Limits in Redis, or in this process while Redis is unreachable; the gateway returns to Redis by itself.
//!
//! [`breaker`] says whether Redis is asked, [`fallback`] decides when it is not,
//! [`watch`](ResilientLimiter::watch) notices that it went or came back even when no requests do.

mod breaker;
mod fallback;
mod metrics;
mod on_redis_failure;

use std::{
    future::Future,
    num::NonZeroU16,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use petstore_clock::{Clock, UnixMillis};
use petstore_telemetry::metrics::HistogramVec;
use tokio::time::{Instant, sleep};

pub use self::metrics::redis_metrics;
pub use self::on_redis_failure::{InvalidOnRedisFailure, OnRedisFailure};
use self::{
    breaker::{Breaker, Change, Moment},
    fallback::Fallback,
};
use super::{
    Decision, LimitKey, LimitStatus, LimiterUnavailable, Outcome, Quota, RateLimiter, RedisHealth,
    RedisLimiter, Scope,
    policy::{self, Record},
};

/// How often Redis is asked how it is.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// What an operator chooses for the time without Redis.
#[derive(Clone, Copy, Debug)]
pub struct ResilienceSettings {
    /// What becomes of requests then.
    pub on_failure: OnRedisFailure,
    /// How many gateways share the counters: each has its part of the limits then.
    pub gateways: NonZeroU16,
}

/// What has happened since the start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResilienceCounts {
    /// Decisions and probes that Redis failed to answer in time.
    pub failures: u64,
    /// Times at which this gateway began to decide without Redis.
    pub outages: u64,
    /// Decisions made without Redis.
    pub decided_alone: u64,
}

/// The Redis limiter, and what steps in for it. A decision waits for Redis once, and no longer than that
/// limiter lets it; after three failures in a row nothing but probes asks Redis, until it has answered these
/// for a while. Nothing is counted in Redis either before the core has named the installation, which is when
/// it first answers.
#[derive(Debug)]
pub struct ResilientLimiter {
    redis: RedisLimiter,
    settings: ResilienceSettings,
    breaker: Mutex<Breaker>,
    fallback: Fallback,
    started: Instant,
    failures: AtomicU64,
    outages: AtomicU64,
    decided_alone: AtomicU64,
    round_trips: HistogramVec,
}

impl ResilientLimiter {
    /// Tries Redis, for a second at most, and begins with it or without it.
    pub async fn start(redis: RedisLimiter, settings: ResilienceSettings, clock: Clock) -> Self {
        let started = Instant::now();
        let first_try = redis.probe().await;
        match first_try {
            Ok(health) => report_evictions(health),
            Err(LimiterUnavailable) => {
                warn_of_outage(&redis, settings.on_failure);
            }
        }
        Self {
            redis,
            settings,
            breaker: Mutex::new(Breaker::new(first_try.is_ok(), Duration::ZERO)),
            fallback: Fallback::new(clock, settings.gateways),
            started,
            failures: AtomicU64::new(0),
            outages: AtomicU64::new(u64::from(first_try.is_err())),
            decided_alone: AtomicU64::new(0),
            round_trips: metrics::round_trips(),
        }
    }

    /// Asks Redis how it is until `shutdown`. Without it, Redis is never returned to.
    pub async fn watch(&self, shutdown: impl Future<Output = ()>) {
        let probe_often = async {
            loop {
                sleep(PROBE_INTERVAL).await;
                // In doubt ask again at once: three failures in a row are to be known within a second.
                while !self.probe().await && self.breaker().is_closed() {}
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = probe_often => {}
        }
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counts(&self) -> ResilienceCounts {
        ResilienceCounts {
            failures: self.failures.load(Ordering::Relaxed),
            outages: self.outages.load(Ordering::Relaxed),
            decided_alone: self.decided_alone.load(Ordering::Relaxed),
        }
    }

    /// Asks Redis without a request, and tells whether it answered. It is asked to write: a Redis that only
    /// reads is of no use.
    async fn probe(&self) -> bool {
        let asked_at = self.fallback.local_time();
        let answer = self.counted(Box::pin(self.redis.probe_once())).await;
        if let Ok(now) = answer {
            self.fallback.learn_time(now, asked_at); // also when no requests come, and when a clock was set
        }
        let is_good = answer.is_ok();
        let change = self.breaker().probed(is_good, self.moment());
        self.note(change);
        if change == Some(Change::Closed) {
            // It may be another Redis, or configured anew.
            if let Ok(health) = self.counted(Box::pin(self.redis.probe())).await {
                report_evictions(health);
            }
        }
        is_good
    }

    /// Whether Redis is asked.
    fn is_shared(&self) -> bool {
        self.redis.knows_installation() && self.breaker().is_closed()
    }

    /// What Redis would answer an address that it refused before, until the refusal's end: such an address
    /// costs it nothing. Not so a key, whose refused requests are counted as strikes.
    fn remembered(&self, limit_key: &LimitKey, quota: Quota) -> Option<LimitStatus> {
        if !matches!(limit_key, LimitKey::Address(_)) || !self.is_shared() {
            return None;
        }
        let seen = self.fallback.as_seen(limit_key, quota);
        Some(seen).filter(|seen| seen.decision.outcome != Outcome::Admitted)
    }

    /// Redis's answer about the key, if it is asked and answers in time, or else what becomes of the request
    /// without Redis: `locally` by this gateway's own counts, `openly` by no counts at all.
    async fn decide<T>(
        &self,
        limit_key: &LimitKey,
        call: BoxFuture<'_, Result<T, LimiterUnavailable>>,
        decision: fn(&T) -> &Decision,
        locally: impl FnOnce(&Fallback) -> T,
        openly: impl FnOnce(UnixMillis) -> T,
    ) -> Result<T, LimiterUnavailable> {
        let asked_at = self.fallback.local_time();
        if let Ok(answer) = self.call_redis(call).await {
            self.fallback.learn(limit_key, decision(&answer), asked_at);
            return Ok(answer);
        }
        let decided = match self.settings.on_failure {
            OnRedisFailure::Local => locally(&self.fallback),
            OnRedisFailure::Open => openly(self.fallback.now()),
            OnRedisFailure::Closed => return Err(LimiterUnavailable),
        };
        self.decided_alone.fetch_add(1, Ordering::Relaxed);
        Ok(decided)
    }

    /// Redis's answer to a request's question, if it is asked and answers in time.
    async fn call_redis<T>(
        &self,
        call: BoxFuture<'_, Result<T, LimiterUnavailable>>,
    ) -> Result<T, LimiterUnavailable> {
        if !self.is_shared() {
            return Err(LimiterUnavailable);
        }
        let answer = self.counted(call).await;
        let change = self.breaker().asked(answer.is_ok(), self.moment());
        self.note(change);
        answer
    }

    async fn counted<T>(
        &self,
        call: BoxFuture<'_, Result<T, LimiterUnavailable>>,
    ) -> Result<T, LimiterUnavailable> {
        let asked = Instant::now();
        let answer = call.await;
        self.round_trips.with_label_values::<&str>(&[]).observe(asked.elapsed().as_secs_f64());
        self.failures.fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
        answer
    }

    fn note(&self, change: Option<Change>) {
        match change {
            None => {}
            Some(Change::Opened) => {
                self.outages.fetch_add(1, Ordering::Relaxed);
                warn_of_outage(&self.redis, self.settings.on_failure);
            }
            Some(Change::Closed) => tracing::info!("rate limits are shared again"),
        }
    }

    /// Never held over an await: no future is made while it is held.
    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> Moment {
        self.started.elapsed()
    }
}

impl RateLimiter for ResilientLimiter {
    fn take<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move {
            if let Some(refused) = self.remembered(limit_key, quota) {
                return Ok(refused.decision);
            }
            self.decide(
                limit_key,
                self.redis.take(limit_key, quota, settled_at),
                |decision| decision,
                |fallback| fallback.take(limit_key, quota, settled_at),
                |now| on_its_own(policy::take(Record::default(), quota, settled_at, now).0),
            )
            .await
        })
    }

    fn inspect<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<LimitStatus, LimiterUnavailable>> {
        Box::pin(async move {
            if let Some(refused) = self.remembered(limit_key, quota) {
                return Ok(refused);
            }
            self.decide(
                limit_key,
                self.redis.inspect(limit_key, quota, settled_at),
                |limit_status| &limit_status.decision,
                |fallback| fallback.inspect(limit_key, quota, settled_at),
                |now| {
                    let limit_status = policy::inspect(Record::default(), quota, settled_at, now);
                    LimitStatus { decision: on_its_own(limit_status.decision), ..limit_status }
                },
            )
            .await
        })
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
        !self.breaker().is_closed()
    }
}

/// The decision of a gateway that decides without the shared counters.
fn on_its_own(decision: Decision) -> Decision {
    Decision { scope: Scope::Node, ..decision }
}

fn warn_of_outage(redis: &RedisLimiter, policy: OnRedisFailure) {
    let error = redis.last_error().map(|error| error.to_string()).unwrap_or_default();
    tracing::warn!(%policy, error, "rate limits are not shared, because Redis is unreachable");
}

fn report_evictions(health: RedisHealth) {
    if health.evicts {
        tracing::warn!(
            "Redis may drop counters when its memory is full, and with them hand out quota anew: \
             set maxmemory-policy noeviction"
        );
    }
}
