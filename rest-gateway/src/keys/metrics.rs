//! Metrics of the key cache and of look-ups in the core.

use petstore_telemetry::metrics;
use petstore_telemetry::metrics::{IntCounterVec, counters};

use super::{KeyError, cached_key::CacheState};

metrics! {
    #[derive(Debug)]
    pub(super) struct KeyMetrics {
        cache: IntCounterVec = counters(
            "petstore_key_cache_requests_total",
            "Requests with a well-formed key, by the state of the key in the gateway's cache.",
            &["result"],
        ),
        lookups: IntCounterVec = counters(
            "petstore_key_lookups_total",
            "Key look-ups in the core, which share calls, by their result.",
            &["result"],
        ),
    }
}

impl KeyMetrics {
    pub(super) fn requested(&self, state: &CacheState) {
        let result = match state {
            CacheState::Key(_) => "hit",
            CacheState::UnknownKey => "hit_unknown",
            CacheState::Outdated => "outdated",
            CacheState::Missing => "miss",
        };
        self.cache.with_label_values(&[result]).inc();
    }

    /// Counts a look-up; `error` is the reason if it found no usable key.
    pub(super) fn looked_up(&self, error: Option<&KeyError>) {
        let result = match error {
            None => "found",
            Some(KeyError::Missing | KeyError::Unknown) => "unknown",
            Some(KeyError::Revoked) => "revoked",
            Some(KeyError::Expired) => "expired",
            Some(KeyError::AccountSuspended(_)) => "suspended",
            Some(KeyError::CoreAway) => "core_away",
            Some(KeyError::Overloaded) => "overloaded",
        };
        self.lookups.with_label_values(&[result]).inc();
    }
}
