//! How often keys were remembered, and how often the core was asked for one.

use petstore_telemetry::metrics::{Collectors, IntCounterVec, counters};

use super::{Unresolved, ring::Memory};

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

    pub(super) fn recalled(&self, memory: &Memory) {
        let result = match memory {
            Memory::Key(_) => "hit",
            Memory::NoKey => "hit_unknown",
            Memory::Outdated => "outdated",
            Memory::Nothing => "miss",
        };
        self.cache.with_label_values(&[result]).inc();
    }

    /// A key was looked up; `unresolved` if that led to none.
    pub(super) fn looked_up(&self, unresolved: Option<Unresolved>) {
        let result = match unresolved {
            None => "found",
            Some(Unresolved::Unknown) => "unknown",
            Some(Unresolved::Revoked) => "revoked",
            Some(Unresolved::Expired) => "expired",
            Some(Unresolved::CoreAway) => "core_away",
            Some(Unresolved::Overloaded) => "overloaded",
        };
        self.lookups.with_label_values(&[result]).inc();
    }
}
