//! Refusals of this gateway by cores.

use std::time::Duration;

use http::Response;
use parking_lot::Mutex;
use petstore_telemetry::parts::FaultCause;
use tokio::time::Instant;
use tonic::{Code, Status, body::Body};

/// Time for which a refusal is remembered. Behind one address there may be several cores of which one refuses
/// this gateway, and then other calls succeed meanwhile.
const MEMORY: Duration = Duration::from_secs(30);

/// Header field in which a core gives the reason of a refusal. Its status has no details, by which gateways
/// tell it from the refusal of an operator.
const REASON: &str = "petstore-refusal";

/// Record of the last refusal of this gateway by a core.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Option<(Instant, FaultCause)>>);

/// Extension of a core's answer: another core refuses this gateway, for this reason.
#[derive(Clone, Copy)]
pub(super) struct AnotherRefuses(pub(super) FaultCause);

impl Refusals {
    /// Records the refusal that an answer is, or tells of.
    pub(super) fn record(&self, answer: &Response<Body>) {
        let of_another = answer.extensions().get().map(|AnotherRefuses(cause)| *cause);
        if let Some(cause) = of_another.or_else(|| Some(cause(&refusal(answer)?))) {
            *self.0.lock() = Some((Instant::now(), cause));
        }
    }

    /// Returns the cause of the last refusal, if that was recent.
    pub fn recent(&self) -> Option<FaultCause> {
        let (refused_at, cause) = (*self.0.lock())?;
        (refused_at.elapsed() < MEMORY).then_some(cause)
    }
}

/// Returns the status of an answer by which a core refuses this gateway.
pub(super) fn refusal(answer: &Response<Body>) -> Option<Status> {
    if !answer.headers().contains_key(Status::GRPC_STATUS) {
        return None; // as in nearly every answer
    }
    Status::from_header_map(answer.headers())
        .filter(|status| status.code() == Code::Unauthenticated && status.details().is_empty())
}

/// Returns the cause of a refusal.
pub(super) fn cause(refusal: &Status) -> FaultCause {
    let is_about_certificate = match refusal.metadata().get(REASON) {
        Some(reason) => reason == "no_certificate",
        None => refusal.message().contains("client certificate"), // of a core of 1.1
    };
    if is_about_certificate { FaultCause::CoreCertificateRequired } else { FaultCause::CoreTokenRefused }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_cause_that_its_core_gives_and_one_of_an_operator_has_none() {
        use FaultCause::{CoreCertificateRequired, CoreTokenRefused};
        for (code, reason, message, details, expected) in [
            (Code::Unauthenticated, "no_certificate", "any", "", Some(CoreCertificateRequired)),
            (Code::Unauthenticated, "wrong_token", "a client certificate", "", Some(CoreTokenRefused)),
            (Code::Unauthenticated, "", "must show a client certificate", "", Some(CoreCertificateRequired)),
            (Code::Unauthenticated, "", "not this core's", "", Some(CoreTokenRefused)),
            (Code::Unauthenticated, "", "no such operator", "details", None),
            (Code::Internal, "", "a fault", "", None),
        ] {
            let mut status = Status::with_details(code, message, details.into());
            if !reason.is_empty() {
                status.metadata_mut().insert(REASON, reason.parse().unwrap());
            }
            let refusals = Refusals::default();
            refusals.record(&status.into_http());
            assert_eq!(refusals.recent(), expected, "{message}");
        }
    }
}
