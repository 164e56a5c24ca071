//! A transport for the generated clients.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
use petstore_traces::{Description, Span, SpanKind, Within, grpc};
use tonic::{Status, body::Body};
use tower::{BoxError, Service};

use super::CoreTransport;

/// A [`CoreTransport`] whose calls are parts of the request that they are made for, and whose error has a name. With a boxed error, the compiler cannot see that the futures of
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

    fn call(&mut self, mut request: Request<Body>) -> Call {
        let span = Span::child(SpanKind::Client, || describe(request.uri().path()));
        span.write(request.headers_mut());
        Call { answer: span.within(self.0.call(request)), span }
    }
}

/// A call of `/package.Service/Method`.
fn describe(path: &str) -> Description {
    let method = path.trim_start_matches('/').to_owned();
    Description { name: method.clone().into(), attributes: grpc::call(method).into() }
}

/// A call under way.
pub(crate) struct Call {
    answer: Within<<CoreTransport as Service<Request<Body>>>::Future>,
    span: Span,
}

impl Future for Call {
    type Output = Result<Response<Body>, TransportError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(|answered| {
            let answered = answered.map_err(TransportError).and_then(grpc_only);
            describe_end(&self.span, &answered);
            answered
        })
    }
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
fn grpc_only(response: Response<Body>) -> Result<Response<Body>, TransportError> {
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
