//! Refusals of this gateway by cores.

use std::time::Duration;

use parking_lot::Mutex;
use petstore_telemetry::parts::FaultCause;
use tokio::time::Instant;
use tonic::{Code, Status};

/// Time for which a refusal is remembered. Behind one address there may be several cores of which one refuses
/// this gateway, and then other calls succeed meanwhile.
const MEMORY: Duration = Duration::from_secs(30);

/// Record of the last refusal of this gateway by a core.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Option<(Instant, FaultCause)>>);

impl Refusals {
    /// Records the status of an answer if it refuses this gateway.
    pub(super) fn record(&self, status: &Status) {
        if status.code() != Code::Unauthenticated {
            return;
        }
        let is_about_certificate = status.message().contains("client certificate");
        let cause = if is_about_certificate {
            FaultCause::CoreCertificateRequired
        } else {
            FaultCause::CoreTokenRefused
        };
        *self.0.lock() = Some((Instant::now(), cause));
    }

    /// Returns the cause of the last refusal, if that was recent.
    pub fn recent(&self) -> Option<FaultCause> {
        let (refused_at, cause) = (*self.0.lock())?;
        (refused_at.elapsed() < MEMORY).then_some(cause)
    }
}
