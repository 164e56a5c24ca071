//! What a failed call to the core means to the client.

use std::error::Error;

use petstore_proto::{ERROR_DOMAIN, v1::ErrorReason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    ApiError,
    codes::{REASON_PREFIX, is_grpc_only, row_of},
};

/// What tonic's client says when its own timeout has passed: `CANCELLED`, not `DEADLINE_EXCEEDED`.
const TONIC_TIMEOUT: &str = "Timeout expired";

/// A status that names one of our reasons is mapped by it. Only one without is mapped by its code, and says
/// nothing of its own: it may come from anything between here and the core.
impl From<&Status> for ApiError {
    fn from(status: &Status) -> Self {
        let retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
        match named_reason(status) {
            Some(ErrorReason::Internal) => Self::Internal,
            // Named as on this edge: a client knows of no request id.
            Some(ErrorReason::InvalidIdempotencyKey) => Self::InvalidIdempotencyKey,
            Some(ErrorReason::IdempotencyInProgress) => Self::IdempotencyInProgress { retry_after },
            Some(ErrorReason::IdempotencyKeyReused) => Self::IdempotencyKeyReused,
            Some(ErrorReason::InvalidParameter) => {
                let violations = status.get_details_bad_request().map(|details| details.field_violations);
                let cursor = violations.into_iter().flatten().find(|violation| violation.field == "cursor");
                let cursor = cursor.map(|violation| format!("{} {}", violation.field, violation.description));
                Self::CoreParameter { message: status.message().to_owned(), cursor }
            }
            Some(reason) => Self::Core { reason, message: status.message().to_owned(), retry_after },
            None => match status.code() {
                Code::InvalidArgument => Self::ValidationFailed("the request is not valid".to_owned()),
                Code::NotFound => Self::PetNotFound,
                Code::ResourceExhausted => Self::Overloaded { retry_after },
                Code::DeadlineExceeded => Self::DeadlineExceeded,
                Code::Cancelled if status.message() == TONIC_TIMEOUT => Self::DeadlineExceeded,
                // Nobody cancels a call but this gateway, which does not look at it any more then: so the
                // transport did, as TLS does when it refuses a certificate late. And a core that does not
                // trust this gateway is its operator's fault, not the client's.
                Code::Unavailable | Code::Cancelled | Code::Unauthenticated | Code::PermissionDenied => {
                    Self::Unavailable { retry_after }
                }
                _ if is_transport_failure(status) => Self::Unavailable { retry_after },
                Code::Ok
                | Code::Unknown
                | Code::AlreadyExists
                | Code::FailedPrecondition
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Internal
                | Code::DataLoss => Self::Internal,
            },
        }
    }
}

/// The reason in the status's `ErrorInfo`, if it is one that the core may give (AIP-193).
fn named_reason(status: &Status) -> Option<ErrorReason> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    let reason = ErrorReason::from_str_name(&format!("{REASON_PREFIX}{}", info.reason))?;
    is_from_core(reason).then_some(reason)
}

/// Whether the core gives this reason to a gateway. The others belong to calls that a gateway does not make,
/// or are judged here, from what only HTTP can express; above all a 429 is never passed on, because its
/// header fields would not agree with it.
const fn is_from_core(reason: ErrorReason) -> bool {
    let is_judged_here = matches!(reason, ErrorReason::LimiterUnavailable | ErrorReason::Unspecified);
    row_of(reason).grpc.is_some() && !is_grpc_only(reason) && !is_judged_here
}

/// Whether the status was made on this side: then it has a source (whatever its code: a connection that was
/// cut half-way through an answer is `INTERNAL` to tonic), or was made by the generated client because the
/// transport was not ready.
pub(crate) fn is_transport_failure(status: &Status) -> bool {
    status.source().is_some()
        || status.message() == "transport error"
        || status.message().starts_with("Service was not ready")
}
