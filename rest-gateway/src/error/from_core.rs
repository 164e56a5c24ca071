//! Mapping of failed calls to the core to errors for the client.

use std::error::Error;

use petstore_proto::{ERROR_DOMAIN, v1::ErrorReason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::ApiError;

/// Maps a status by its reason if it names one of this service. Otherwise the status is mapped by its code,
/// and its message is not used, because it may come from a proxy between the gateway and the core.
impl From<&Status> for ApiError {
    fn from(status: &Status) -> Self {
        let retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
        match named_reason(status) {
            Some(ErrorReason::Internal) => Self::Internal,
            // Uses the name on this edge: the core calls the key a request id, and REST clients do not.
            Some(ErrorReason::InvalidIdempotencyKey) => Self::InvalidIdempotencyKey,
            Some(ErrorReason::IdempotencyInProgress) => Self::IdempotencyInProgress { retry_after },
            Some(ErrorReason::IdempotencyKeyReused) => Self::IdempotencyKeyReused,
            Some(reason) => Self::Core { reason, message: status.message().to_owned(), retry_after },
            None => match status.code() {
                Code::InvalidArgument => Self::ValidationFailed("the request is not valid".to_owned()),
                Code::NotFound => Self::PetNotFound,
                Code::ResourceExhausted => Self::Overloaded { retry_after },
                Code::DeadlineExceeded => Self::DeadlineExceeded,
                // tonic's client calls its own timeout `CANCELLED`.
                Code::Cancelled if status.message() == "Timeout expired" => Self::DeadlineExceeded,
                // Only this gateway cancels a call, and it then ignores the result. So this status comes from
                // the transport, as when TLS refuses a certificate late. A core that does not trust this
                // gateway is a fault of the operator, not of the client.
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

/// Returns the reason in the status's `ErrorInfo` (AIP-193), if the core may give it. Other reasons are
/// decided here, from what only HTTP can express. In particular a 429 is never passed on, because its header
/// fields would not agree with it.
fn named_reason(status: &Status) -> Option<ErrorReason> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    ErrorReason::named(&info.reason).filter(|reason| reason.code().grpc.is_some())
}

/// Returns `true` if the status was made on this side. It then has a source, with any code: a connection that
/// was cut half-way through an answer is `INTERNAL` to tonic. Or the generated client made it because the
/// transport was not ready.
pub(crate) fn is_transport_failure(status: &Status) -> bool {
    status.source().is_some()
        || status.message() == "transport error"
        || status.message().starts_with("Service was not ready")
}
