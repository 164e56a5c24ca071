//! Metrics of calls.

use std::time::Duration;

use petstore_telemetry::metrics::{Collectors, HistogramVec, IntCounterVec, counters, durations};

use super::{methods::Method, status};
use crate::domain::PetStoreError;

/// Counters of calls. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CallMetrics {
    durations: HistogramVec,
    failures: IntCounterVec,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            durations: durations(
                "rpc_server_call_duration_seconds",
                "How long gRPC calls took in the core.",
                &["rpc_method"],
            ),
            failures: counters(
                "petstore_rpc_failures_total",
                "gRPC calls that the core refused or failed, by the reason in their ErrorInfo.",
                &["rpc_method", "code"],
            ),
        }
    }
}

impl CallMetrics {
    pub(crate) fn collectors(&self) -> Collectors {
        vec![Box::new(self.durations.clone()), Box::new(self.failures.clone())]
    }

    /// Counts a call that was answered.
    pub(super) fn answered(&self, method: &Method, took: Duration, failure: Option<&PetStoreError>) {
        let rpc = method.name();
        self.durations.with_label_values(&[rpc]).observe(took.as_secs_f64());
        if let Some(failure) = failure {
            self.failures.with_label_values(&[rpc, status::reason(failure)]).inc();
        }
    }
}
