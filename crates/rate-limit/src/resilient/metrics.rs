//! Metrics of Redis.

use std::{sync::Arc, time::Duration};

use petstore_telemetry::metrics;
use petstore_telemetry::metrics::{
    Collectors, HistogramVec, IntCounter, IntGauge, Sampled, counter, durations, gauge,
};

use super::ResilientLimiter;

metrics! {
    /// Counts of one limiter. Clones share them.
    #[derive(Clone, Debug)]
    pub(super) struct RedisMetrics {
        round_trips: HistogramVec = durations(
            "petstore_redis_round_trip_duration_seconds",
            "Duration of calls to Redis, including failed ones.",
            &[],
        ),
        failures: IntCounter = counter(
            "petstore_redis_failures_total",
            "Decisions and probes that Redis failed to answer in time.",
        ),
        pub(super) outages: IntCounter = counter(
            "petstore_redis_outages_total",
            "Times at which the gateway began to decide without Redis.",
        ),
        pub(super) decided_alone: IntCounter = counter(
            "petstore_redis_decided_alone_total",
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

/// Returns the metrics of Redis. Without Redis all are 0.
pub fn redis_metrics(limiter: Option<&Arc<ResilientLimiter>>) -> Collectors {
    let mut metrics = limiter.map(|limiter| limiter.metrics.clone()).unwrap_or_default().collectors();
    let limiter = limiter.cloned();
    let is_open = gauge("petstore_redis_breaker_open", "1 while the gateway decides without Redis.");
    metrics.push(Sampled::boxed(is_open, move |open: &IntGauge| {
        open.set(limiter.as_ref().is_some_and(|limiter| limiter.is_degraded()).into());
    }));
    metrics
}
