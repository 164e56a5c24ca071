//! Transport of calls that are not batched.

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use petstore_telemetry::traces::{Span, SpanKind, grpc};
use tonic::{Status, body::Body};
use tower::{Service, ServiceExt};

use super::{
    breaker::CoreBreaker,
    transport::{CoreTransport, NamedTransport, Refusals, TransportError, named},
};

/// Transport whose calls are spans of the request that they belong to, and are given up while the breaker is
/// open. Clones share the breaker and the record of refusals.
#[derive(Clone, Debug)]
pub struct TracedTransport {
    pub(super) core: NamedTransport,
    /// Breaker of this core.
    pub breaker: Arc<CoreBreaker>,
    /// Refusals of this process by the core.
    pub refusals: Arc<Refusals>,
}

impl From<CoreTransport> for TracedTransport {
    fn from(core: CoreTransport) -> Self {
        let refusals = Arc::<Refusals>::default();
        let core = named(core, Arc::clone(&refusals));
        Self { breaker: CoreBreaker::new(core.clone()), core, refusals }
    }
}

impl Service<Request<Body>> for TracedTransport {
    type Response = Response<Body>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Response<Body>, TransportError>>;

    /// Always ready, as the transport is.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let span = span(request.uri().path().trim_start_matches('/').to_owned());
        span.write(request.headers_mut());
        let answer = span.within(self.core.clone().oneshot(request));
        let breaker = Arc::clone(&self.breaker);
        async move {
            let answered = breaker.guard(answer).await;
            describe_end(&span, &answered);
            answered
        }
        .boxed()
    }
}

/// Returns the span of a call of `package.Service/Method`.
pub(super) fn span(method: impl Into<Cow<'static, str>>) -> Span {
    Span::child(SpanKind::Client, || {
        let name = method.into();
        (name.clone(), grpc::call(name).into())
    })
}

/// Ends the span with the answer's status. An answer without a status in its header fields has not failed so
/// far.
fn describe_end(span: &Span, answered: &Result<Response<Body>, TransportError>) {
    let Ok(response) = answered else { return span.fail("transport error") };
    let status =
        response.headers().get(Status::GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse().ok());
    describe_status(span, status.unwrap_or_default());
}

/// Adds the status code of the answer to the span.
pub(super) fn describe_status(span: &Span, code: i32) {
    span.describe(|| grpc::answered(code));
    if code != 0 {
        span.fail(grpc::status(code));
    }
}

#[cfg(test)]
mod tests {
    use petstore_proto::internal::v1::{GetUsageRequest, usage_service_client::UsageServiceClient};
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::is_transport_failure;

    #[tokio::test]
    async fn an_answer_of_a_proxy_is_an_outage() {
        let proxy = service_fn(async |_: Request<Body>| {
            let mut answer = Response::new(Body::new("<html>no server is available</html>".to_owned()));
            *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
            Ok::<_, BoxError>(answer)
        });
        let mut client = UsageServiceClient::new(TracedTransport::from(CoreTransport::new(proxy)));
        let status = client.get_usage(GetUsageRequest::default()).await.unwrap_err();
        assert!(is_transport_failure(&status), "{status:?}");
    }
}
