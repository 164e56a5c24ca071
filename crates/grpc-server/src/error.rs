//! Failures of calls: their gRPC status, and their line in the log.

use std::error::Error;

use petstore_telemetry::logs::with_causes;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::methods::Method;

/// Reason why a call was refused or failed. `Display` is safe to show to any caller; the cause is the
/// `source`.
pub trait MethodError: Error + Send + Sync + 'static {
    /// Code in metrics, traces and the log.
    fn code(&self) -> &'static str;

    /// gRPC status. It decides the level of the log line.
    fn status(&self) -> Code;

    /// Details for the caller: `google.rpc.ErrorInfo` with the code, and whatever else helps.
    fn details(&self) -> ErrorDetails;
}

/// Failure of a call for a reason that does not depend on its method.
#[derive(Debug, thiserror::Error)]
pub enum CallFault {
    /// A call that does not have the form of gRPC, with the fault.
    #[error("{0}")]
    InvalidCall(String),
    /// A message that is larger than its method allows.
    #[error("a message of this method must be at most {max} bytes")]
    MessageTooLarge {
        /// Size of the largest message.
        max: usize,
    },
    /// A message in an encoding that the service does not have.
    #[error("messages must not be compressed")]
    CompressedMessage,
    /// A call of a method that the service does not have.
    #[error("the service has no such method")]
    UnknownMethod,
    /// More calls are in flight than the server accepts: the same call may succeed later.
    #[error("the service is overloaded")]
    Overloaded,
    /// The call's deadline passed; whether it took effect is unknown.
    #[error("the call exceeded its deadline")]
    DeadlineExceeded,
    /// The work of the call panicked.
    #[error("the service failed to answer")]
    Panicked(#[source] Box<dyn Error + Send + Sync>),
}

/// Returns the status for a failure of a call that its caller may have named. If the cause concerns an
/// operator, it is logged here, and only here, with the name in the caller's certificate.
pub(super) fn to_status(
    method: &'static Method,
    call_id: Option<&str>,
    certificate: Option<&str>,
    error: &dyn MethodError,
) -> Status {
    log(method, call_id, certificate, error);
    without_log(call_id, error)
}

/// Returns the status without logging, for a failure that has no cause and that any caller could repeat at
/// will.
pub(super) fn without_log(call_id: Option<&str>, error: &dyn MethodError) -> Status {
    let mut details = error.details();
    if let Some(call_id) = call_id {
        details.set_request_info(call_id, "");
    }
    Status::with_error_details(error.status(), error.to_string(), details)
}

/// Logs a failure. A fault of the service needs an operator, an outage may pass, and a refusal concerns only
/// its caller.
fn log(method: &Method, call_id: Option<&str>, certificate: Option<&str>, error: &dyn MethodError) {
    let (rpc, request_id, code) = (method.path, call_id, error.code());
    let cause = error.source().map(with_causes);
    match error.status() {
        // The health of the server tells an outage once.
        Code::Unavailable | Code::DeadlineExceeded if method.is_polled => {
            tracing::debug!(rpc, request_id, certificate, code, error = cause, "{rpc} failed: {error}");
        }
        Code::Internal => {
            tracing::error!(rpc, request_id, certificate, code, error = cause, "{rpc} failed: {error}");
        }
        Code::Unavailable | Code::DeadlineExceeded => {
            tracing::warn!(rpc, request_id, certificate, code, error = cause, "{rpc} failed: {error}");
        }
        _ => tracing::debug!(rpc, request_id, certificate, code, "{rpc} refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_logged_with_its_sources_and_each_text_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Layer(&'static str, #[source] std::io::Error);
        let refused = || std::io::Error::other("refused");
        assert_eq!(with_causes(&Layer("cannot connect", refused())), "cannot connect: refused");
        assert_eq!(with_causes(&Layer("the server refused it", refused())), "the server refused it");
    }
}
