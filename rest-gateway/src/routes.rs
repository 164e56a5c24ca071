//! Routes of the public port. A handler translates the request, calls the core and answers.

mod creation;
mod orders;
mod paging;
mod pets;

use std::{convert::identity as direct, pin::Pin, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use percent_encoding::percent_decode_str;
use petstore_http_server::{App, HttpPeer};
use tower::ServiceExt;

use crate::{
    error::ApiError,
    gateway::{Gateway, GatewayState},
    json::{json_response, usage::usage_body},
    openapi,
    operation::{Id, allow, operations},
    pipeline::{self, Admitted},
    request_id::Caller,
    unknown_input::UnknownInput,
};

/// App of the public port, for [`serve`](petstore_http_server::serve).
///
/// A request passes, from the outside in (docs/contract.md, 4.1; each step may end it):
///
/// 1. request id, head (414, 431, 400, 501): needs no lookup, so junk is cheap and is not counted;
/// 2. authentication (401) before the limit, because the allowance belongs to the key's account;
/// 3. rate limit (429) before routing, so that unknown paths are not a way around it;
/// 4. route (404), method (405);
/// 5. the handler: media type (415), size (413), parsing (400), the call to the core.
///
/// `pipeline` performs steps 1 to 3 and completes every answer on its way out.
#[derive(Clone, Debug)]
pub struct RestApp {
    gateway: Arc<GatewayState>,
    /// `http` or `https`, in metrics and traces.
    scheme: &'static str,
    /// Pages that need no key: the documentation, whose failures are pages too, and the OpenAPI document.
    pages: Router,
}

impl RestApp {
    /// Creates the app, with the documentation at these routes.
    pub fn new(gateway: &Gateway, documentation: Router) -> Self {
        let pages = documentation.route("/openapi.json", openapi::route());
        let pages = pages.fallback(async || ApiError::RouteNotFound);
        Self { gateway: Arc::clone(gateway.state()), scheme: "http", pages }
    }

    /// Returns the app for a port over HTTPS.
    pub fn over_https(self) -> Self {
        Self { scheme: "https", ..self }
    }
}

impl App for RestApp {
    /// Returns the answer, with a single allocation for the whole request.
    fn answer(&self, request: Request, peer: HttpPeer) -> BoxFuture<'static, Response> {
        self.clone().respond(request, peer).boxed()
    }
}

impl RestApp {
    async fn respond(self, request: Request, peer: HttpPeer) -> Response {
        let is_head = request.method() == Method::HEAD;
        let route = |admitted| route(&self, admitted);
        let response = pipeline::handle(&self.gateway, self.scheme, request, &peer, route).await;
        if is_head { without_body(response) } else { response }
    }
}

macro_rules! route {
    (
        ApiKey { $($id:ident $row:tt => $future:ident $handler:path;)* }
        Everybody { $($page:ident $page_row:tt => $page_future:ident $page_handler:path;)* }
    ) => {
        /// Calls the handler of the operation.
        async fn route(app: &RestApp, admitted: Admitted) -> Response {
            let RestApp { gateway, pages, .. } = app;
            let Admitted { operation, caller, request } = admitted;
            let unknown = &mut UnknownInput::new(request.headers());
            let answered = match (operation, caller) {
                $((Id::$id, Some(caller)) => $future($handler(gateway, &caller, request, unknown)).await,)*
                $((Id::$page, _) => $page_future($page_handler(pages, request)).await,)*
                (Id::Docs, _) => boxed(page(pages, request)).await,
                (_, _) => boxed(not_served(pages, operation, request)).await,
            };
            let mut response = answered.unwrap_or_else(IntoResponse::into_response);
            unknown.write(response.headers_mut());
            response
        }
    };
}
operations!(route);

/// Keeps the future of a rare operation elsewhere, because otherwise every request would be as large as it.
fn boxed<F>(handler: F) -> Pin<Box<F>> {
    Box::pin(handler)
}

/// Returns a page that needs no key. HEAD is answered like GET: its response loses the body last of all.
async fn page(pages: &Router, mut request: Request) -> Result<Response, ApiError> {
    if request.method() == Method::HEAD {
        *request.method_mut() = Method::GET;
    }
    pages.clone().oneshot(request).await.map_err(|never| match never {})
}

/// Answers a request that no row of the table serves. Anything else that comes here is refused too.
async fn not_served(pages: &Router, operation: Id, request: Request) -> Result<Response, ApiError> {
    match allow(request.uri().path()) {
        Some(allow) if operation == Id::Options => {
            Ok((StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response())
        }
        Some(allow) => Err(ApiError::MethodNotAllowed { allow }),
        None => page(pages, request).await,
    }
}

/// Returns the answer to HEAD, with the length of the answer to GET (RFC 9110 §9.3.2).
fn without_body(mut response: Response) -> Response {
    if let Some(len) = response.body().size_hint().exact() {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(len));
    }
    *response.body_mut() = Body::empty();
    response
}

/// Handles `GET /v1/usage` (beta). Admission has already inspected the account, since this uses no quota.
async fn get_usage(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
    unknown: &mut UnknownInput,
) -> Result<Response, ApiError> {
    unknown.add_query(request.uri());
    unknown.refuse()?;
    let (key, limits) = caller.limits.as_ref().ok_or(ApiError::Internal)?;
    let days = gateway.usage.days(&gateway.core, caller).await?;
    let brownouts = gateway.brownouts.announced(caller.account_id, gateway.keys.core_now());
    Ok(json_response(StatusCode::OK, usage_body(key, limits, &days, &brownouts)))
}

/// Returns the identifier in the path's last segment if it is an int64 in its canonical spelling, which has
/// neither `+` nor a leading zero. A resource has one URL, so any other segment names none.
fn id_in_path(path: &str) -> Option<i64> {
    let segment = path.rsplit('/').next()?;
    let segment = percent_decode_str(segment).decode_utf8().ok()?;
    let digits = segment.strip_prefix('-').unwrap_or(&segment);
    let is_canonical = segment == "0" || digits.starts_with(|first| matches!(first, '1'..='9'));
    segment.parse().ok().filter(|_| is_canonical)
}

/// Limit, number of the status and cursor of a list, each with its value or its fault.
#[cfg(feature = "fuzzing")]
pub type FuzzedQuery =
    (Result<Option<u8>, String>, Result<Option<u8>, String>, Result<Option<String>, String>);

/// Parses the query of a list.
#[cfg(feature = "fuzzing")]
pub fn fuzz_query(query: &str) -> FuzzedQuery {
    let filter = paging::Filter { name: "status", words: &crate::json::pet::STATUSES };
    let paging::Query { limit, filter, cursor } =
        paging::Query::parse(query, Some(filter), &mut UnknownInput::default());
    (limit, filter, cursor.map(|cursor| cursor.map(String::from)))
}

/// Returns the name of a creation by the account, or `None` if `Idempotency-Key` is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_creation_key(headers: &http::HeaderMap, account_id: i64) -> Option<String> {
    let key = creation::CreationKey::from_headers(headers, account_id, &petstore_clock::Clock::system());
    Some(key.ok()?.as_str().to_owned())
}

#[cfg(test)]
mod tests;
