//! One request, from its head to its answer. In this order: [`RequestContext`], [`head`],
//! [`mod@authenticate`], [`rate_limit`], then its route and handler, or [`refusal`], then [`respond`] (with
//! [`rate_limit_headers`]). Only a read that will probably be admitted does not wait for [`rate_limit`]
//! (docs/contract.md, 4.5).
//!
//! This is one function instead of a stack of layers. The result of one step is a variable for the next, and
//! no answer can leave without its header fields.

mod authenticate;
mod head;
mod rate_limit;
mod rate_limit_headers;
mod refusal;
mod respond;

use std::{
    future::Future,
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
};

use axum::{extract::Request, response::Response};
use futures_util::FutureExt;
use http::request::Parts;
use petstore_client_address::ClientAddress;
use petstore_key_cache::{KnownKey, UnusableKey};
use petstore_rate_limit::{Decision, LimitStatus};
use petstore_telemetry::{
    metrics::GaugeGuard,
    traces::{Root, Span, Within},
};
use tokio::{select, time::Instant};

pub use self::head::check as check_head;
pub(crate) use self::rate_limit::limit_status;
use self::{authenticate::authenticate, rate_limit::Admission};
use crate::{
    cors,
    early_reads::EarlyRead,
    error::ApiError,
    gateway::GatewayState,
    operation::{Access, Id, Operation, is_versioned},
    request_id::{Caller, RequestId},
};

/// A request in flight. Every step of the pipeline reads it.
#[derive(Debug)]
struct RequestContext {
    operation: Operation,
    /// `true` if the path is `/v1` or below it. The answer then shows limits, and failures have Error bodies.
    is_versioned: bool,
    request_id: RequestId,
    /// Network that the request came from.
    address: ClientAddress,
    /// Rights of the web page's origin to the answer; `None` while CORS is off.
    cors: Option<cors::Grant>,
    started: Instant,
    span: Span,
    _active: GaugeGuard,
}

impl RequestContext {
    fn new(gateway: &GatewayState, request: &Parts, peer: IpAddr) -> Self {
        let path = request.uri.path();
        let operation = Operation::find(&request.method, path);
        Self {
            operation,
            is_versioned: is_versioned(path),
            request_id: RequestId::from_headers(&request.headers, &gateway.clock),
            address: gateway.settings.trusted_proxies.client(peer, &request.headers),
            cors: cors::judge(&gateway.settings.cors_origins, request),
            started: Instant::now(),
            span: gateway
                .settings
                .traces
                .request(&request.headers, Root::Sampled, || operation.title().into()),
            _active: gateway.metrics.active(),
        }
    }

    /// Returns the caller of an admitted request.
    fn caller(&self, key: &KnownKey) -> Caller {
        Caller { account_id: key.account_id, plan: key.plan, request_id: self.request_id.clone() }
    }

    /// Runs a part of the request's work within its span.
    fn within<F: Future>(&self, work: F) -> Within<F> {
        self.span.within(work)
    }
}

/// Admitted request, with its operation and caller.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) operation: Id,
    /// `None` only for operations that need no key.
    pub(crate) caller: Option<Caller>,
    /// Limits of the account, for a request for its usage.
    pub(crate) limit_status: Option<LimitStatus>,
    pub(crate) request: Request,
}

/// Answers a request: admits it, lets `route` find its handler, and completes the answer. The body is not
/// touched before the request is admitted.
pub(crate) async fn handle<F>(
    gateway: &GatewayState,
    request: Request,
    peer: IpAddr,
    route: impl FnOnce(Admitted) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let (parts, body) = request.into_parts();
    let context = RequestContext::new(gateway, &parts, peer);
    let identity = identify(gateway, &context, &parts).await;
    let operation = context.operation.id;
    let answer = async |caller, limit_status| {
        let request = Request::from_parts(parts, body);
        let answered = pin!(route(Admitted { operation, caller, limit_status, request }));
        context.within(catch_panic(answered)).await
    };
    let (key, refused_key, decision, answered) =
        if let Some((caller, early)) = identity.early_caller(gateway, &context) {
            let both = async {
                let admission = pin!(async {
                    let admission = admit(gateway, &context, identity).await;
                    drop(early);
                    admission
                });
                at_once(admission, pin!(answer(Some(caller), None))).await
            };
            // Boxed, because otherwise every request would be as large as a decision and a call together.
            let (key, decision, answered) = Box::pin(both).await;
            (key, None, decision, answered)
        } else {
            let Admission { key, refused_key, verdict, decision, limit_status } =
                admit(gateway, &context, identity).await;
            let answered = match verdict {
                Ok(()) => answer(key.as_deref().map(|key| context.caller(key)), limit_status).await,
                Err(refusal) => Err(refusal),
            };
            (key, refused_key, decision, answered)
        };
    let response = respond::complete(gateway, &context, decision, answered).await;
    respond::record(gateway, &context, key.as_ref(), refused_key.as_deref(), &response);
    response
}

/// Calls the core while the limiter decides, and drops the call if the limiter refuses.
async fn at_once(
    mut admission: Pin<&mut impl Future<Output = Admission>>,
    mut answer: Pin<&mut impl Future<Output = Result<Response, ApiError>>>,
) -> (Option<Arc<KnownKey>>, Option<Decision>, Result<Response, ApiError>) {
    let (Admission { key, verdict, decision, .. }, answered) = select! {
        biased;
        admission = admission.as_mut() => (admission, None),
        answered = answer.as_mut() => (admission.await, Some(answered)),
    };
    let answered = match (verdict, answered) {
        (Err(refusal), _) => Err(refusal),
        (Ok(()), Some(answered)) => answered,
        (Ok(()), None) => answer.await,
    };
    (key, decision, answered)
}

/// Sender of a request.
enum Identity {
    /// Any sender: the operation needs no key, or the head is refused.
    Anybody(Result<(), ApiError>),
    Key(Result<Arc<KnownKey>, UnusableKey>),
}

impl Identity {
    /// Returns the caller of a read that need not wait for the limiter, because it will probably be admitted.
    fn early_caller(&self, gateway: &GatewayState, context: &RequestContext) -> Option<(Caller, EarlyRead)> {
        match self {
            Self::Key(Ok(key)) if gateway.limiter.is_remote() && context.operation.is_read() => {
                gateway.early_reads.of(key.account_id).begin().map(|early| (context.caller(key), early))
            }
            _ => None,
        }
    }
}

/// Checks the head, and authenticates the request if its operation requires that.
async fn identify(gateway: &GatewayState, context: &RequestContext, parts: &Parts) -> Identity {
    if let Err(error) = head::check(parts) {
        return Identity::Anybody(Err(error));
    }
    if context.operation.access == Access::Everybody {
        return Identity::Anybody(Ok(()));
    }
    let key = pin!(authenticate(gateway, &parts.headers, context.address));
    match context.within(catch_panic(key)).await {
        Ok(key) => Identity::Key(key),
        Err(panicked) => Identity::Anybody(Err(panicked)),
    }
}

/// Counts the request, if its operation requires that, and records a refusal.
async fn admit(gateway: &GatewayState, context: &RequestContext, identity: Identity) -> Admission {
    let admission = match identity {
        Identity::Anybody(verdict) => Admission::not_counted(verdict),
        Identity::Key(key) => {
            let admission = pin!(rate_limit::admit(gateway, context, key));
            let admission = context.within(catch_panic(admission)).await;
            admission.unwrap_or_else(|panicked| Admission::not_counted(Err(panicked)))
        }
    };
    if let Err(error) = &admission.verdict {
        refusal::note(gateway, context, &admission, error);
    }
    admission
}

/// Turns a panic into an error, so that it ends one request and not the connection. The process's panic hook
/// logs it.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, ApiError> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| ApiError::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error() {
        assert_eq!(catch_panic(async { 1 }).await, Ok(1));
        let panicked = catch_panic(async { panic!("a test panics") }).await;
        assert_eq!(panicked, Err::<(), _>(ApiError::Internal));
    }
}
