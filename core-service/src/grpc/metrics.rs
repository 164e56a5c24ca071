//! What is counted of calls.

use std::time::Duration;

use petstore_telemetry::metrics::{Collectors, HistogramVec, IntCounterVec, counters, durations};

use super::{admin, status};
use crate::domain::PetStoreError;

/// What is counted of calls. Clones count together.
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

    /// Counts a call that was answered, under its method's name without the service's; with it if operators
    /// called, since some names are those of other methods.
    pub(super) fn answered(&self, rpc: &str, took: Duration, failure: Option<&PetStoreError>) {
        let is_admin = rpc.starts_with(admin::PACKAGE);
        let name = if is_admin { rpc.rsplit('.').next() } else { rpc.rsplit('/').next() };
        let rpc = name.unwrap_or(rpc);
        self.durations.with_label_values(&[rpc]).observe(took.as_secs_f64());
        if let Some(failure) = failure {
            self.failures.with_label_values(&[rpc, status::reason(failure)]).inc();
        }
    }
}
