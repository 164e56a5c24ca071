//! Transport to the core that can be replaced while it is in use.

use std::{
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use petstore_gateway::core_client::CoreTransport;
use tonic::body::Body;
use tower::{BoxError, Service, ServiceExt};

type Request = axum::http::Request<Body>;
type Response = axum::http::Response<Body>;

/// Transport that sends each call over the current one. A call continues on the transport on which it began.
/// Clones share the transport.
#[derive(Clone, Debug)]
pub(crate) struct ReplaceableTransport(Arc<RwLock<CoreTransport>>);

impl ReplaceableTransport {
    pub(crate) fn new(transport: CoreTransport) -> Self {
        Self(Arc::new(RwLock::new(transport)))
    }

    pub(crate) fn replace(&self, transport: CoreTransport) {
        // The lock is never poisoned: no code panics while it holds it.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = transport;
    }

    fn current(&self) -> CoreTransport {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Service<Request> for ReplaceableTransport {
    type Response = Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // the call waits until the transport is ready
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(self.current().oneshot(request))
    }
}
