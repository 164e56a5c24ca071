//! A transport for the generated clients.

use std::{
    error::Error,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{BoxFuture, FutureExt};
use http::{Request, Response, StatusCode};
use petstore_telemetry::traces::{Description, Span, SpanKind, grpc};
use tonic::{Status, body::Body};
use tower::{BoxError, Service, ServiceExt};

use super::{CoreTransport, breaker::CoreBreaker};

/// A [`CoreTransport`] whose calls are parts of the request that they are made for, that gives up calls while the core
/// answers nobody, and whose error has a name. With a boxed error, the compiler cannot see that the futures of the
/// generated clients are `Send` (rust-lang/rust#110338). Clones share the breaker.
#[derive(Clone, Debug)]
pub(crate) struct NamedTransport {
    core: CoreTransport,
    breaker: Arc<CoreBreaker>,
}

/// The call did not get through to the core, or its answer not back.
#[derive(Debug, thiserror::Error)]
#[error("transport error")]
pub(crate) struct TransportError(#[source] BoxError);

impl TransportError {
    pub(super) fn new(cause: impl Into<BoxError>) -> Self {
        Self(cause.into())
    }

    /// The innermost cause, which says most.
    pub(super) fn cause(&self) -> String {
        let mut cause: &(dyn Error + 'static) = &*self.0;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        cause.to_string()
    }
}

impl NamedTransport {
    /// Whether calls are made at all.
    pub(crate) fn breaker(&self) -> &Arc<CoreBreaker> {
        &self.breaker
    }
}

impl From<CoreTransport> for NamedTransport {
    fn from(core: CoreTransport) -> Self {
        Self { breaker: CoreBreaker::new(core.clone()), core }
    }
}

impl Service<Request<Body>> for NamedTransport {
    type Response = Response<Body>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Response<Body>, TransportError>>;

    /// Always ready: a call waits for the transport itself, so that this wait is not longer than others.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let span = Span::child(SpanKind::Client, || describe(request.uri().path()));
        span.write(request.headers_mut());
        let answer = span.within(self.core.clone().oneshot(request));
        let breaker = Arc::clone(&self.breaker);
        async move {
            let answer = async { answer.await.map_err(TransportError).and_then(grpc_only) };
            let answered = breaker.guard(answer).await;
            describe_end(&span, &answered);
            answered
        }
        .boxed()
    }
}

/// A call of `/package.Service/Method`.
fn describe(path: &str) -> Description {
    let method = path.trim_start_matches('/').to_owned();
    Description { name: method.clone().into(), attributes: grpc::call(method).into() }
}

/// An answer without status in its head goes well so far: a failure has no more to say than that.
fn describe_end(span: &Span, answered: &Result<Response<Body>, TransportError>) {
    let Ok(response) = answered else { return span.fail("transport error") };
    let status =
        response.headers().get(Status::GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse().ok());
    span.describe(|| grpc::answered(status.unwrap_or_default()));
    if let Some(code) = status.filter(|code| *code != 0) {
        span.fail(grpc::status(code));
    }
}

/// Lets through what a gRPC server says: HTTP status 200, or a `grpc-status` whatever the HTTP status (gRPC over
/// HTTP2, "HTTP2 Transport Mapping"). Anything else was said by a proxy on the way, and its body is no message.
pub(super) fn grpc_only(response: Response<Body>) -> Result<Response<Body>, TransportError> {
    if response.status() == StatusCode::OK || response.headers().contains_key(Status::GRPC_STATUS) {
        return Ok(response);
    }
    Err(TransportError(format!("HTTP status {} from between here and the core", response.status()).into()))
}

#[cfg(test)]
mod tests {
    use petstore_proto::v1::{GetPetRequest, pet_store_client::PetStoreClient};
    use tower::service_fn;

    use super::*;
    use crate::error::ApiError;

    #[tokio::test]
    async fn a_proxys_own_answer_is_an_outage_and_not_a_fault() {
        let proxy = service_fn(async |_: Request<Body>| {
            let mut answer = Response::new(Body::new("<html>no server is available</html>".to_owned()));
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            Ok::<_, BoxError>(answer)
        });
        let mut client = PetStoreClient::new(NamedTransport::from(CoreTransport::new(proxy)));
        #[expect(deprecated, reason = "any call will do")]
        let status = client.get_pet(GetPetRequest { pet_id: 1 }).await.unwrap_err();
        assert!(matches!(ApiError::from(&status), ApiError::Unavailable { .. }), "{status:?}");
    }
}
