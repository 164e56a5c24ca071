//! Transport for the generated clients, and its errors.

use std::future::ready;

use http::{Request, Response, StatusCode};
use tonic::{Status, body::Body};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

use super::failure::innermost;

/// Transport of gRPC calls to the core. The all-in-one process passes the core's own service, so that no
/// socket is needed; a separate gateway passes the result of [`connect()`](super::connect()).
pub type CoreTransport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// The call did not reach the core, or its answer did not return.
#[derive(Debug, thiserror::Error)]
#[error("transport error")]
pub(crate) struct TransportError(#[source] BoxError);

impl TransportError {
    pub(super) fn new(cause: impl Into<BoxError>) -> Self {
        Self(cause.into())
    }

    /// Returns the innermost cause, which is the most specific.
    pub(super) fn cause(&self) -> String {
        innermost(&*self.0).to_string()
    }
}

/// Converts the error as the generated clients do. If its cause is a status, returns that status.
impl From<TransportError> for Status {
    fn from(error: TransportError) -> Self {
        match error.0.downcast::<Self>() {
            Ok(status) => *status,
            Err(cause) => Self::from_error(TransportError(cause).into()),
        }
    }
}

/// [`CoreTransport`] with a named error type. With a boxed error, the compiler cannot see that the futures of
/// the generated clients are `Send` (rust-lang/rust#110338).
pub(super) type NamedTransport = BoxCloneSyncService<Request<Body>, Response<Body>, TransportError>;

/// Returns the transport with a named error type, which accepts only answers of a gRPC server.
pub(super) fn named(core: CoreTransport) -> NamedTransport {
    BoxCloneSyncService::new(core.map_err(TransportError).and_then(|response| ready(grpc_only(response))))
}

/// Accepts answers of a gRPC server: HTTP status 200, or a `grpc-status` with any HTTP status (gRPC over
/// HTTP2, "HTTP2 Transport Mapping"). Any other answer is from a proxy in between, and its body is not a
/// message.
fn grpc_only(response: Response<Body>) -> Result<Response<Body>, TransportError> {
    if response.status() == StatusCode::OK || response.headers().contains_key(Status::GRPC_STATUS) {
        return Ok(response);
    }
    Err(TransportError::new(format!(
        "HTTP status {} from a server between this gateway and the core",
        response.status()
    )))
}
