//! The app of the public port, and one request, from its head to its response: [`handle`] reads as the steps
//! of the contract (docs/contract.md, 4).
//!
//! It is one function around the router instead of a stack of layers in it: the result of a step is a
//! variable for the next, no response can leave without its header fields, and no route pays for layers.

mod head;
mod rate_limit;
mod respond;

use std::{future::Future, net::IpAddr, panic::AssertUnwindSafe, pin::pin, sync::Arc};

use axum::{Router, extract::Request, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderMap, Method, header::ACCEPT, request::Parts};
use parking_lot::Mutex;
use petstore_caller::{
    api_key::{ApiKey, BearerError},
    call::RequestId,
    client_address::ClientAddress,
};
use petstore_http_server::{App, HttpPeer};
use petstore_key_cache::{KeyError, KnownKey, UnusableKey};
use petstore_proto::internal::v1::{Refusal, RefusalCause};
use petstore_rate_limit::LimitStatus;
use petstore_telemetry::{
    metrics::GaugeGuard,
    traces::{Root, Span},
};
use tokio::time::Instant;
use tower::Service;

pub use self::head::check as check_head;
use self::rate_limit::Admission;
use crate::{
    cors,
    early_reads::EarlyRead,
    error::ApiError,
    gateway::{Gateway, GatewayState},
    operation::{Counts, Operation, is_versioned},
    problem,
    request::{Caller, ForwardedPrefix, request_id},
    unknown_input::UnknownInput,
    usage_counter::refusal_by,
};

/// App of the public port, for [`serve`](petstore_http_server::serve).
#[derive(Clone)]
pub struct RestApp {
    gateway: Arc<GatewayState>,
    /// `http` or `https`, in metrics and traces.
    scheme: &'static str,
    router: Router,
}

impl RestApp {
    /// Creates the app, with the documentation at these routes.
    pub fn new(gateway: &Gateway, documentation: Router) -> Self {
        let gateway = Arc::clone(gateway.state());
        let router = crate::router()
            .merge(documentation.with_state(())) // whose failures are pages too
            .fallback(async || ApiError::RouteNotFound)
            .with_state(Arc::clone(&gateway));
        Self { gateway, scheme: "http", router }
    }

    /// Returns the app for a port over HTTPS.
    pub fn over_https(self) -> Self {
        Self { scheme: "https", ..self }
    }
}

impl App for RestApp {
    fn answer(&self, request: Request, peer: HttpPeer) -> BoxFuture<'static, Response> {
        let Self { gateway, scheme, router } = self.clone();
        Box::pin(async move { handle(&gateway, scheme, request, &peer, router).await })
    }
}

/// Handles a request: identifies its sender, admits it, lets the router find its handler, and completes the
/// response. The body is not touched before the request is admitted.
pub(crate) async fn handle(
    gateway: &GatewayState,
    scheme: &'static str,
    request: Request,
    peer: &HttpPeer,
    mut router: Router,
) -> Response {
    let ((mut parts, body), from) = (request.into_parts(), peer.address.ip());
    let mut context = RequestContext::new(gateway, scheme, &parts, from);
    let sender = identify(gateway, &mut context, &parts, from).await;
    if sender.key().is_some() {
        peer.note_known(context.started);
    }
    let admission = admit(gateway, &context, &sender);
    let route = async |limits| {
        let unknown = Arc::new(Mutex::new(UnknownInput::new(&parts.headers)));
        parts.extensions.insert(Arc::clone(&unknown));
        if let Some(caller) = sender.caller(&context, limits) {
            parts.extensions.insert(caller);
        }
        if let Some(prefix) = &context.prefix {
            parts.extensions.insert(prefix.clone());
        }
        let response = pin!(router.call(Request::from_parts(parts, body)));
        let Ok(mut response) = context.span.within(catch_panic(response)).await?;
        unknown.lock().write(response.headers_mut());
        Ok(response)
    };
    let (decision, response) = match sender.early_read(gateway, &context) {
        // Boxed, because otherwise every request would be as large as a decision and a call together.
        Some(early) => Box::pin(early.route(context.active.is_alone(), admission, route(None))).await,
        None => match admission.await {
            (Ok(limits), decision) => (decision, route(limits).await),
            (Err(refusal), decision) => (decision, Err(refusal)),
        },
    };
    let response = respond::complete(gateway, &context, &sender, decision, response).await;
    respond::record(gateway, &context, &sender, &response);
    response
}

/// A request in flight. Every step of the pipeline reads it.
struct RequestContext {
    operation: Operation,
    is_head: bool,
    /// `http` or `https`.
    scheme: &'static str,
    /// `true` if the path is `/v1` or below it. The response then shows limits, and failures have Error
    /// bodies.
    is_versioned: bool,
    request_id: RequestId,
    /// Address that the request came from.
    client: IpAddr,
    /// Network of that address, which limits count.
    address: ClientAddress,
    /// Rights of the web page's origin to the response; `None` while CORS is off.
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
            is_head: request.method == Method::HEAD,
            scheme,
            is_versioned: is_versioned(path),
            request_id: request_id(&request.headers, &gateway.clock),
            client,
            address: client.into(),
            cors: cors::judge(&gateway.settings.cors_origins, request),
            prefix: ForwardedPrefix::of(proxies, peer, &request.headers),
            prefers_problem: request.headers.contains_key(ACCEPT) && problem::is_preferred(&request.headers),
            started: Instant::now(),
            span: Span::none(),
            active: GaugeGuard::new(&gateway.metrics.active),
        }
    }

    /// Begins the span of the request, as part of the trace that these header fields name, whose sender
    /// decides whether it is recorded.
    fn begin_span(&mut self, gateway: &GatewayState, headers: &HeaderMap) {
        let title = || self.operation.title().into();
        self.span = gateway.settings.traces.request(headers, Root::Sampled, title);
    }
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
        let key = self.key().filter(|_| gateway.redis.is_some() && may_read())?;
        gateway.early_reads.of(key.account_id).begin()
    }
}

/// Identifies the sender, and begins the span of the request: before that, unless the sender decides what is
/// recorded, because whoever has no valid key has no say in it.
async fn identify(
    gateway: &GatewayState,
    context: &mut RequestContext,
    parts: &Parts,
    from: IpAddr,
) -> Sender {
    let headers = &parts.headers;
    let decides_late =
        gateway.settings.traces.continues(headers) && !gateway.settings.trusted_proxies.trusts(from);
    if !decides_late {
        context.begin_span(gateway, headers);
    }
    let sender = find_sender(gateway, context, parts).await;
    if decides_late {
        let nobody = HeaderMap::new();
        context.begin_span(gateway, if sender.key().is_some() { headers } else { &nobody });
    }
    sender
}

/// Checks the head, and authenticates the request if its operation requires that.
async fn find_sender(gateway: &GatewayState, context: &RequestContext, parts: &Parts) -> Sender {
    if let Err(error) = head::check(parts) {
        return Sender::Unread(error);
    }
    if context.operation.counts == Counts::Nothing {
        return Sender::Anybody;
    }
    let key = pin!(authenticate(gateway, &parts.headers, context.client));
    match context.span.within(catch_panic(key)).await {
        Ok(Ok(key)) => {
            let is_read = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
            let is_forbidden = key.is_read_only && !is_read; // docs/contract.md, 5.14
            Sender::Key(key, is_forbidden.then_some(ApiError::InsufficientScope))
        }
        Ok(Err(unusable)) => Sender::NoKey(unusable),
        Err(panicked) => Sender::Unread(panicked),
    }
}

/// Returns the key of the request if it may be used now (docs/contract.md, 5).
async fn authenticate(
    gateway: &GatewayState,
    headers: &HeaderMap,
    client: IpAddr,
) -> Result<Arc<KnownKey>, UnusableKey> {
    let key = ApiKey::from_headers(headers, gateway.settings.environment).map_err(|error| match error {
        BearerError::Missing => KeyError::Missing,
        BearerError::Invalid => KeyError::Unknown,
    })?;
    let resolved = gateway.keys.resolve(&key, client).await;
    let is_known = resolved.as_ref().map_or_else(|unusable| unusable.key.is_some(), |_| true);
    if is_known && gateway.redis.as_ref().is_some_and(|redis| !redis.knows_installation()) {
        Box::pin(gateway.keys.poll_once()).await; // its first answer names it; no request is counted before
    }
    resolved
}

/// Counts the request, if its operation requires that, and records a refusal.
async fn admit(gateway: &GatewayState, context: &RequestContext, sender: &Sender) -> Admission {
    let admission = pin!(rate_limit::admit(gateway, context, sender));
    let admission = context.span.within(catch_panic(admission)).await;
    let (mut verdict, decision) = admission.unwrap_or_else(|panicked| (Err(panicked), None));
    if let (Ok(_), Some(forbidden)) = (&verdict, sender.forbidden()) {
        verdict = Err(forbidden.clone());
    }
    if let Err(error) = &verdict {
        note_refusal(gateway, context, sender, error);
    }
    (verdict, decision)
}

/// Records the refusal, unless the request was malformed or a part of the service is unavailable.
fn note_refusal(gateway: &GatewayState, context: &RequestContext, sender: &Sender, error: &ApiError) {
    let own_limit = match (sender.key(), context.operation.counts) {
        (None, _) => Some(RefusalCause::AddressLimit),
        (Some(_), Counts::OwnLimit) => Some(RefusalCause::UsageLimit),
        (Some(_), _) => None,
    };
    let Some(refusal) = refusal_by(error, own_limit) else { return };
    let mut refusal = Refusal { request_id: context.request_id.as_str().to_owned(), ..refusal };
    if let Some(key) = sender.known_key() {
        (refusal.account_id, refusal.key_id) = (key.account_id, key.key_id.to_string());
    }
    gateway.usage.note_refusal(refusal, context.address);
}

/// Turns a panic into an error, so that it ends one request and not the connection. The process's panic hook
/// logs it.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, ApiError> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| ApiError::Internal)
}

#[cfg(test)]
mod tests;
