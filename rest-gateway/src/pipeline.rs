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
    borrow::Cow,
    future::Future,
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
};

use axum::{extract::Request, response::Response};
use futures_util::FutureExt;
use http::{HeaderMap, request::Parts};
use petstore_caller::api_key::ApiKey;
use petstore_caller::client_address::ClientAddress;
use petstore_http_server::HttpPeer;
use petstore_key_cache::{KnownKey, UnusableKey};
use petstore_rate_limit::{Decision, LimitStatus};
use petstore_telemetry::{
    metrics::GaugeGuard,
    traces::{Root, Span, Within},
};
use tokio::{select, task::yield_now, time::Instant};

pub use self::head::check as check_head;
pub(crate) use self::rate_limit::limit_status;
use self::{
    authenticate::{authenticate, forbid},
    rate_limit::Admission,
};
use crate::{
    cors,
    early_reads::EarlyRead,
    error::ApiError,
    forwarded_prefix::ForwardedPrefix,
    gateway::GatewayState,
    operation::{Access, Id, Operation, is_versioned},
    problem,
    request_id::{Caller, RequestId, request_id},
};

/// A request in flight. Every step of the pipeline reads it.
#[derive(Debug)]
struct RequestContext {
    operation: Operation,
    /// `http` or `https`.
    scheme: &'static str,
    /// `true` if the path is `/v1` or below it. The answer then shows limits, and failures have Error bodies.
    is_versioned: bool,
    request_id: RequestId,
    /// Address that the request came from.
    client: IpAddr,
    /// Network of that address, which limits count.
    address: ClientAddress,
    /// Rights of the web page's origin to the answer; `None` while CORS is off.
    cors: Option<cors::Grant>,
    /// Path that a proxy removed from that of the request.
    prefix: Option<ForwardedPrefix>,
    /// `true` if the client prefers Problem Details to the Error body.
    prefers_problem: bool,
    started: Instant,
    span: Span,
    active: GaugeGuard,
}

impl RequestContext {
    fn new(gateway: &GatewayState, scheme: &'static str, request: &Parts, peer: IpAddr) -> Self {
        let path = request.uri.path();
        let proxies = &gateway.settings.trusted_proxies;
        let client = proxies.client_ip(peer, &request.headers);
        Self {
            operation: Operation::find(&request.method, path),
            scheme,
            is_versioned: is_versioned(path),
            request_id: request_id(&request.headers, &gateway.clock),
            client,
            address: client.into(),
            cors: cors::judge(&gateway.settings.cors_origins, request),
            prefix: ForwardedPrefix::of(proxies, peer, &request.headers),
            prefers_problem: problem::is_preferred(&request.headers),
            started: Instant::now(),
            span: Span::none(),
            active: gateway.metrics.active(),
        }
    }

    /// Begins the span of the request, as part of the trace that these header fields name, whose sender
    /// decides whether it is recorded. A `tracestate` with a key in it is left out: spans are exported.
    fn begin_span(&mut self, gateway: &GatewayState, headers: &HeaderMap) {
        let mut headers = Cow::Borrowed(headers);
        let mut states = headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok());
        if states.any(ApiKey::begins_in) {
            headers.to_mut().remove("tracestate");
        }
        let title = || self.operation.title().into();
        self.span = gateway.settings.traces.request(&headers, Root::Sampled, title);
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
    pub(crate) request: Request,
}

/// Answers a request: admits it, lets `route` find its handler, and completes the answer. The body is not
/// touched before the request is admitted.
pub(crate) async fn handle<F>(
    gateway: &GatewayState,
    scheme: &'static str,
    request: Request,
    peer: &HttpPeer,
    route: impl FnOnce(Admitted) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let ((mut parts, body), from) = (request.into_parts(), peer.address().ip());
    let mut context = RequestContext::new(gateway, scheme, &parts, from);
    let decides_late =
        gateway.settings.traces.continues(&parts.headers) && !gateway.settings.trusted_proxies.trusts(from);
    if !decides_late {
        context.begin_span(gateway, &parts.headers);
    }
    let sender = identify(gateway, &context, &parts).await;
    if decides_late {
        // Whoever has no valid key has no say in what is recorded.
        let nobody = HeaderMap::new();
        context.begin_span(gateway, if sender.key().is_some() { &parts.headers } else { &nobody });
    }
    if sender.key().is_some() {
        peer.note_known(context.started);
    }
    if let Some(prefix) = &context.prefix {
        parts.extensions.insert(prefix.clone());
    }
    let operation = context.operation.id;
    let answer = async |caller| {
        let request = Request::from_parts(parts, body);
        let answered = pin!(route(Admitted { operation, caller, request }));
        context.within(catch_panic(answered)).await
    };
    let (decision, answered) = match sender.early_read(gateway, &context) {
        Some(early) => {
            let both = async {
                let admission = async {
                    if context.active.is_alone() {
                        call_leaves_first().await;
                    }
                    let admission = admit(gateway, &context, &sender).await;
                    drop(early);
                    admission
                };
                at_once(pin!(admission), pin!(answer(sender.caller(&context, None)))).await
            };
            // Boxed, because otherwise every request would be as large as a decision and a call together.
            Box::pin(both).await
        }
        None => match admit(gateway, &context, &sender).await {
            Admission { verdict: Ok(limits), decision } => {
                (decision, answer(sender.caller(&context, limits)).await)
            }
            Admission { verdict: Err(refusal), decision } => (decision, Err(refusal)),
        },
    };
    let response = respond::complete(gateway, &context, &sender, decision, answered).await;
    respond::record(gateway, &context, &sender, &response);
    response
}

/// Waits until a call that was begun in the same scheduler turn has probably been sent. The core takes longer
/// than Redis, which may run before it if both are woken on one processor. Among other requests the order
/// makes no difference, and turns cost time.
async fn call_leaves_first() {
    for _ in 0..2 {
        yield_now().await;
    }
}

/// Calls the core while the limiter decides, and drops the call if the limiter refuses.
async fn at_once(
    mut admission: Pin<&mut impl Future<Output = Admission>>,
    mut answer: Pin<&mut impl Future<Output = Result<Response, ApiError>>>,
) -> (Option<Decision>, Result<Response, ApiError>) {
    let (Admission { verdict, decision }, answered) = select! {
        biased;
        admission = admission.as_mut() => (admission, None),
        answered = answer.as_mut() => (admission.await, Some(answered)),
    };
    let answered = match (verdict, answered) {
        (Err(refusal), _) => Err(refusal),
        (Ok(_), Some(answered)) => answered,
        (Ok(_), None) => answer.await,
    };
    (decision, answered)
}

/// Sender of a request.
enum Sender {
    /// It was not looked for, because the head is refused.
    Unread(ApiError),
    /// Anybody: the operation needs no key.
    Anybody,
    /// The holder of a valid key, with the refusal if the key may not make this request.
    Key(Arc<KnownKey>, Option<ApiError>),
    /// Nobody whose key may be used.
    NoKey(UnusableKey),
}

impl Sender {
    /// Returns the key if it is valid, even if the limits refuse the request.
    fn key(&self) -> Option<&Arc<KnownKey>> {
        if let Self::Key(key, _) = self { Some(key) } else { None }
    }

    /// Returns the refusal of a valid key that may not make this request.
    const fn forbidden(&self) -> Option<&ApiError> {
        if let Self::Key(_, forbidden) = self { forbidden.as_ref() } else { None }
    }

    /// Returns the key if it is known, even if it may not be used.
    fn known_key(&self) -> Option<&Arc<KnownKey>> {
        if let Self::NoKey(UnusableKey { key, .. }) = self { key.as_ref() } else { self.key() }
    }

    /// Returns the caller of an admitted request.
    fn caller(&self, context: &RequestContext, limits: Option<Box<LimitStatus>>) -> Option<Caller> {
        let request_id = context.request_id.clone();
        self.key().map(|key| Caller {
            account_id: key.account_id,
            request_id,
            limits: limits.map(|limits| (Arc::clone(key), limits)),
        })
    }

    /// Begins a read that need not wait for the limiter, because it will probably be admitted.
    fn early_read(&self, gateway: &GatewayState, context: &RequestContext) -> Option<EarlyRead> {
        let may_read = || self.forbidden().is_none() && context.operation.is_read();
        let key = self.key().filter(|_| gateway.limiter.is_remote() && may_read())?;
        gateway.early_reads.of(key.account_id).begin()
    }
}

/// Checks the head, and authenticates the request if its operation requires that.
async fn identify(gateway: &GatewayState, context: &RequestContext, parts: &Parts) -> Sender {
    if let Err(error) = head::check(parts) {
        return Sender::Unread(error);
    }
    if context.operation.access == Access::Everybody {
        return Sender::Anybody;
    }
    let key = pin!(authenticate(gateway, &parts.headers, context.client));
    match context.within(catch_panic(key)).await {
        Ok(Ok(key)) => {
            let forbidden = forbid(&key, &parts.method);
            Sender::Key(key, forbidden)
        }
        Ok(Err(unusable)) => Sender::NoKey(unusable),
        Err(panicked) => Sender::Unread(panicked),
    }
}

/// Counts the request, if its operation requires that, and records a refusal.
async fn admit(gateway: &GatewayState, context: &RequestContext, sender: &Sender) -> Admission {
    let admission = pin!(rate_limit::admit(gateway, context, sender));
    let admission = context.within(catch_panic(admission)).await;
    let mut admission = admission.unwrap_or_else(|panicked| Admission::not_counted(Err(panicked)));
    if let (Ok(_), Some(forbidden)) = (&admission.verdict, sender.forbidden()) {
        admission.verdict = Err(forbidden.clone());
    }
    if let Err(error) = &admission.verdict {
        refusal::note(gateway, context, sender, error);
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
