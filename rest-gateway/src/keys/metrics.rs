//! Metrics of the key cache and of look-ups in the core.

use petstore_telemetry::metrics::{Collectors, IntCounterVec, counters};

use super::{KeyError, cached_key::CacheState};

#[derive(Debug)]
pub(super) struct KeyMetrics {
    cache: IntCounterVec,
    lookups: IntCounterVec,
}

impl Default for KeyMetrics {
    fn default() -> Self {
        Self {
            cache: counters(
                "petstore_key_cache_requests_total",
                "Requests with a well-formed key, by what the gateway remembered of it.",
                &["result"],
            ),
            lookups: counters(
                "petstore_key_lookups_total",
                "Look-ups of keys in the core, which share calls, by what came of them.",
                &["result"],
            ),
        }
    }
}

impl KeyMetrics {
    pub(super) fn collectors(&self) -> Collectors {
        vec![Box::new(self.cache.clone()), Box::new(self.lookups.clone())]
    }

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
            Some(KeyError::Unknown) => "unknown",
            Some(KeyError::Revoked) => "revoked",
            Some(KeyError::Expired) => "expired",
            Some(KeyError::AccountSuspended(_)) => "suspended",
            Some(KeyError::CoreAway) => "core_away",
            Some(KeyError::Overloaded) => "overloaded",
        };
        self.lookups.with_label_values(&[result]).inc();
    }
}
