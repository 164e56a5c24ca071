//! Counters in Redis, shared by any number of gateways.
//!
//! `redis.lua` is the policy written for Redis: one call decides and counts, in Redis's own time. A caller
//! uses one key of Redis, and one more while a key of the account is being refused.

mod batch;
mod connection;
mod error;
mod shards;
mod step;
#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use parking_lot::{Mutex, RwLock};
use petstore_clock::{Clock, UnixMillis};
use petstore_telemetry::{
    metrics::{Collectors, HistogramVec, IntCounter, IntGauge, Sampled, counter, durations, gauge},
    traces::{KeyValue, Span, SpanDescription, SpanKind},
};
use redis::Value;

pub(super) use self::shards::Shard;
#[cfg(feature = "fuzzing")]
pub use self::step::fuzz_reply;
pub use self::{
    connection::{RedisDeadlines, RedisUrl},
    error::RedisCallError,
};
use self::{error::in_time, shards::Shards, step::Step};
use super::{
    Decided, Decision, LimitKey, LimitStatus, LimiterUnavailable, Quota, RateLimiter, ResilientLimiter,
    policy,
};

/// Location of the counters, and the timeouts and time of decisions.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// One server, or several nodes of a Redis Cluster, which name the others.
    pub urls: Vec<RedisUrl>,
    /// Beginning of every key, such as `limits:`, by which other users of the same Redis know them.
    pub key_prefix: &'static str,
    /// Timeouts of Redis.
    pub deadlines: RedisDeadlines,
    /// Clock by which decisions are made; `None` for that of the Redis server, which is the same for all
    /// gateways. Clocks of several machines differ.
    pub clock: Option<Clock>,
}

/// Limiter that counts in Redis. All gateways of an installation that use the same Redis share the counters.
/// The limiter makes no decision before the installation is known.
///
/// A failed or late answer is [`LimiterUnavailable`], never a guess, and the request may still have been
/// counted. The only call to a server that is retried is one that Redis reports as without effect. The
/// client of a Cluster also retries, at most twice, calls without an answer, so that they may be counted
/// three times.
/// Must be used inside a tokio runtime.
pub struct RedisLimiter {
    pub(super) shards: Shards,
    deadlines: RedisDeadlines,
    last_error: Mutex<Option<RedisCallError>>,
    key_prefix: &'static str,
    /// Prefix and installation, with which the keys of all counters begin; `None` before the installation is
    /// named.
    namespace: RwLock<Option<Arc<str>>>,
}

impl RedisLimiter {
    /// Creates a limiter that connects on first use, so it can be created before Redis is there.
    ///
    /// # Errors
    /// The fault of the URLs, if they do not belong together.
    pub fn new(settings: RedisSettings) -> Result<Self, &'static str> {
        if settings.urls.iter().any(RedisUrl::has_tls) {
            // rustls needs one for the process. An error means that it already has one.
            let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        }
        let RedisSettings { deadlines, key_prefix, .. } = settings;
        let (last_error, namespace) = (Mutex::default(), RwLock::default());
        Ok(Self { shards: Shards::new(settings)?, deadlines, last_error, key_prefix, namespace })
    }

    /// Connects if necessary, and asks a Cluster for its shards. On each shard it decides on a request that
    /// belongs to no account, with all the work of a decision, including the write. Takes a second at most.
    /// Returns `true` if the eviction policy may evict counters when Redis's memory is full, and so grant
    /// quota again: any policy except `noeviction`.
    ///
    /// # Errors
    /// If Redis, or a shard of it, does not decide.
    pub async fn probe(&self) -> Decided<bool> {
        let probe = async {
            self.shards.learn().await?;
            try_join_all(self.shards.all().iter().map(async |shard| shard.probe().await)).await?;
            let info = self.shards.whole.connection.send(redis::cmd("INFO").arg("memory")).await?;
            Ok(!forbids_eviction(&info))
        };
        // Longer than a decision: it may wait for a connection with TLS.
        self.within(Duration::from_secs(1), probe).await
    }

    /// Returns the shards, after asking a Cluster for them. If it does not answer, they are the shards that
    /// are known.
    pub(super) async fn shards(&self) -> Vec<Arc<Shard>> {
        let _ = self.within(self.deadlines.decision, self.shards.learn()).await;
        self.shards.all()
    }

    /// Does the work of [`take`](RateLimiter::take) on the shard that keeps the counters.
    pub(super) async fn take_on(
        &self,
        shard: &Shard,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Decided<Decision> {
        let step = Step::take(&self.namespace()?, limit_key, quota, settled_at);
        self.within(self.deadlines.decision, async { shard.run(step).await?.decision() }).await
    }

    /// Does the work of [`inspect`](RateLimiter::inspect) on the shard that keeps the counters.
    pub(super) async fn inspect_on(
        &self,
        shard: &Shard,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Decided<LimitStatus> {
        let step = Step::read(&self.namespace()?, limit_key);
        let kept = async { shard.run(step).await?.kept() };
        let (record, now) = self.within(self.deadlines.decision, kept).await?;
        Ok(policy::inspect(record, quota, settled_at, now))
    }

    /// Decides on a request that belongs to no account, and writes it like any other. Returns the shard's
    /// time.
    ///
    /// # Errors
    /// If the shard does not decide.
    pub(super) async fn probe_once(&self, shard: &Shard) -> Decided<UnixMillis> {
        self.within(self.deadlines.decision, async { Ok(shard.probe().await?.decision()?.now) }).await
    }

    /// Sets the name of the installation, whose counters several gateways share. Before it is set, no
    /// decision is made.
    pub fn set_installation(&self, name: &str) {
        // Cores of different stores behind one address may alternate each second, so it is logged once.
        static TOLD: std::sync::OnceLock<()> = std::sync::OnceLock::new();
        // Characters that could mislead Redis Cluster, or make keys long, are left out.
        let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
        let name: String = name.chars().filter(is_plain).take(64).collect();
        let named = [self.key_prefix, &name].concat();
        let mut namespace = self.namespace.write();
        let is_new = !name.is_empty() && namespace.as_deref() != Some(&named);
        if is_new && namespace.replace(named.into()).is_some() && TOLD.set(()).is_ok() {
            tracing::warn!("the store's name has changed: limits begin again; do all cores use one store?");
        }
    }

    /// Returns `true` if the installation is named.
    pub(super) fn knows_installation(&self) -> bool {
        self.namespace().is_ok()
    }

    /// Returns the beginning of the installation's keys.
    ///
    /// # Errors
    /// If the installation is not named yet.
    fn namespace(&self) -> Decided<Arc<str>> {
        let namespace = self.namespace.read();
        namespace.clone().ok_or(LimiterUnavailable)
    }

    /// Returns the cause of Redis's last failure to decide, or `None` if it never failed.
    pub fn last_error(&self) -> Option<RedisCallError> {
        self.last_error.lock().clone()
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, RedisCallError>>,
    ) -> Decided<T> {
        let span = Span::child(SpanKind::Client, describe);
        span.within(in_time(deadline, work)).await.map_err(|error| {
            span.fail(error.to_string());
            tracing::debug!(%error, "Redis made no decision");
            *self.last_error.lock() = Some(error);
            LimiterUnavailable
        })
    }
}

/// Describes a decision, from its wait for a call of the script to its answer. The call may serve other
/// requests too. Each has a separate span for it, so that each is one tree.
fn describe() -> SpanDescription {
    let attributes =
        vec![KeyValue::new("db.system.name", "redis"), KeyValue::new("db.operation.name", "EVALSHA")];
    ("EVALSHA".into(), attributes)
}

/// Returns `true` if all servers that answered say `maxmemory_policy:noeviction`.
fn forbids_eviction(info: &Value) -> bool {
    match info {
        Value::Map(nodes) => nodes.iter().all(|(_, info)| forbids_eviction(info)),
        Value::BulkString(info) => String::from_utf8_lossy(info).contains("maxmemory_policy:noeviction"),
        Value::VerbatimString { text, .. } => text.contains("maxmemory_policy:noeviction"),
        _ => false,
    }
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn take(&self, limit_key: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<Decision> {
        self.take_on(&self.shards.of(limit_key), limit_key, quota, settled_at).await
    }

    async fn inspect(
        &self,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Decided<LimitStatus> {
        self.inspect_on(&self.shards.of(limit_key), limit_key, quota, settled_at).await
    }
}

petstore_telemetry::metrics! {
    /// Counts of one limiter. Clones share them.
    #[derive(Clone, Debug)]
    pub(super) struct RedisMetrics(prefix) {
        round_trips: HistogramVec = durations(
            &format!("{prefix}redis_round_trip_duration_seconds"),
            "Duration of calls to Redis, including failed ones.",
            &[],
        ),
        failures: IntCounter = counter(
            &format!("{prefix}redis_failures_total"),
            "Decisions and probes that Redis failed to answer in time.",
        ),
        pub(super) outages: IntCounter = counter(
            &format!("{prefix}redis_outages_total"),
            "Times at which the gateway began to decide without Redis.",
        ),
        pub(super) decided_alone: IntCounter = counter(
            &format!("{prefix}redis_decided_alone_total"),
            "Decisions made without Redis.",
        ),
    }
}

impl RedisMetrics {
    /// Counts an answer of Redis, or a failure.
    pub(super) fn answered(&self, took: Duration, is_ok: bool) {
        self.round_trips.with_label_values::<&str>(&[]).observe(took.as_secs_f64());
        self.failures.inc_by((!is_ok).into());
    }
}

/// Returns the metrics of Redis, whose names begin with the prefix. Without Redis all are 0.
pub fn redis_metrics(prefix: &str, limiter: Option<&Arc<ResilientLimiter>>) -> Collectors {
    let metrics = limiter.map(|limiter| limiter.metrics.clone());
    let mut metrics = metrics.unwrap_or_else(|| RedisMetrics::with_prefix(prefix)).collectors();
    let limiter = limiter.cloned();
    let name = format!("{prefix}redis_breaker_open");
    let is_open = gauge(&name, "1 while the gateway decides without Redis.");
    metrics.push(Sampled::boxed(is_open, move |open: &IntGauge| {
        open.set(limiter.as_ref().is_some_and(|limiter| limiter.is_degraded()).into());
    }));
    metrics
}
