//! Metrics of Redis.

use std::sync::Arc;

use petstore_telemetry::metrics::{
    Collectors, HistogramVec, IntCounter, IntGauge, Sampled, counter, durations, gauge,
};

use super::{ResilienceCounts, ResilientLimiter};
use crate::rate_limit::RateLimiter;

/// Returns the histogram of the times that Redis took to answer, or to fail.
pub(super) fn round_trips() -> HistogramVec {
    durations("petstore_redis_round_trip_duration_seconds", "How long Redis took to answer or fail.", &[])
}

/// Returns the metrics of Redis. Without Redis all are 0.
#[must_use]
pub fn redis_metrics(limiter: Option<&Arc<ResilientLimiter>>) -> Collectors {
    let is_open = {
        let limiter = limiter.cloned();
        Sampled::boxed(
            gauge(
                "petstore_redis_breaker_open",
                "1 while the gateway considers Redis unreachable and decides without it.",
            ),
            move |open: &IntGauge| {
                open.set(limiter.as_ref().is_some_and(|limiter| limiter.is_degraded()).into());
            },
        )
    };
    let count = |name, help, of: fn(ResilienceCounts) -> u64| {
        let limiter = limiter.cloned();
        Sampled::boxed(counter(name, help), move |shown: &IntCounter| {
            let counts = limiter.as_ref().map(|limiter| limiter.counts()).unwrap_or_default();
            shown.inc_by(of(counts).saturating_sub(shown.get()));
        })
    };
    vec![
        Box::new(limiter.map_or_else(round_trips, |limiter| limiter.round_trips.clone())),
        is_open,
        count(
            "petstore_redis_failures_total",
            "Decisions and probes that Redis failed to answer in time.",
            |counts| counts.failures,
        ),
        count(
            "petstore_redis_outages_total",
            "Times at which the gateway began to decide without Redis.",
            |counts| counts.outages,
        ),
        count("petstore_redis_decided_alone_total", "Decisions made without Redis.", |counts| {
            counts.decided_alone
        }),
    ]
}
