//! A transport for the generated clients.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::body::Body;
use tower::{BoxError, Service};

use super::CoreTransport;

/// A [`CoreTransport`] whose error has a name. With a boxed error, the compiler cannot see that the futures of
/// the generated clients are `Send` (rust-lang/rust#110338).
#[derive(Clone, Debug)]
pub(crate) struct NamedTransport(CoreTransport);

/// The call did not get through to the core, or its answer not back.
#[derive(Debug, thiserror::Error)]
#[error("transport error")]
pub(crate) struct TransportError(#[source] BoxError);

impl From<CoreTransport> for NamedTransport {
    fn from(transport: CoreTransport) -> Self {
        Self(transport)
    }
}

impl Service<Request<Body>> for NamedTransport {
    type Response = Response<Body>;
    type Error = TransportError;
    type Future = Call;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.0.poll_ready(cx).map_err(TransportError)
    }

    fn call(&mut self, request: Request<Body>) -> Call {
        Call(self.0.call(request))
    }
}

/// A call under way.
pub(crate) struct Call(<CoreTransport as Service<Request<Body>>>::Future);

impl Future for Call {
    type Output = Result<Response<Body>, TransportError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(TransportError)
    }
}
