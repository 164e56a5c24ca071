//! The operator console: pages for a browser under `/console` on the admin port.
//!
//! The pages ask `/console/api/…`, which is the JSON admin API under a session: the token of the session is
//! in a cookie that no script can read, and the core keeps its digest, so that every gateway knows it.
//! `/admin/v1/…` itself takes no cookie, so no page of another site can use it.

mod cookie;
mod credentials;
mod pages;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderName, HeaderValue, Method, StatusCode, Uri,
        header::{
            AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, SET_COOKIE,
            X_CONTENT_TYPE_OPTIONS,
        },
        request::Parts,
    },
    middleware::{self, Next},
    response::{AppendHeaders, IntoResponse, Response},
    routing::{any, delete, post},
};
use bytes::Bytes;
use petstore_api_key::SessionToken;
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use cookie::SessionCookie;
use credentials::Credentials;

/// Where the admin API is.
const API: &str = "/admin/v1/";

/// Where the console reaches it.
const API_OF_CONSOLE: &str = "/console/api/";

/// Where sessions are opened and ended in the admin API.
const SESSIONS: &str = "/admin/v1/sessions";
const CURRENT_SESSION: &str = "/admin/v1/sessions/current";

/// Every request that means something carries this field. A page of another origin cannot set it without
/// asking first (CORS), and the answer to that is no.
const OF_CONSOLE: HeaderName = HeaderName::from_static("petstore-console");

/// A sign-in has at most so many bytes.
const MAX_SIGN_IN: usize = 1024;

/// The answer of the admin API to a sign-in has at most so many bytes.
const MAX_SESSION: usize = 16 * 1024;

/// On every answer that is not a page or an asset.
const PRIVATE: [(HeaderName, HeaderValue); 2] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

#[derive(Clone, Debug)]
struct Console {
    /// Serves `/admin/v1/…`, and asks for the token of an operator or of a session.
    admin_api: Router,
}

/// The console in front of an admin API, a router that serves `/admin/v1/…`.
pub fn console(admin_api: Router) -> Router {
    Router::new()
        .route("/console/session", post(sign_in).merge(delete(sign_out)))
        .route("/console/api/{*path}", any(forward))
        .layer(middleware::from_fn(refuse_other_origins))
        .with_state(Console { admin_api })
        .merge(pages::routes())
}

/// What a browser sends to open a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// What the admin API answers when it has opened one.
#[derive(Deserialize)]
struct OpenedSession {
    operator: Value,
    token: String,
    /// In seconds, such as `28800s`.
    ttl: String,
}

/// `POST /console/session`: opens a session for the token and answers as `GetCurrentOperator` does.
async fn sign_in(State(console): State<Console>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_SIGN_IN).await else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "a sign-in has at most 1 KiB");
    };
    let typed = serde_json::from_slice(&body).ok();
    let Some(credentials) = typed.and_then(|SignIn { token }| Credentials::typed(&token)) else {
        let message = "an operator's token begins with pet_op_ and has no spaces in it";
        return refuse(StatusCode::BAD_REQUEST, "VALIDATION_FAILED", message);
    };
    let answer = console.ask(without_body(&head, Method::POST, SESSIONS), &credentials).await;
    if answer.status() != StatusCode::CREATED {
        return answer;
    }
    let Some((operator, token, ttl)) = opened_session(answer).await else {
        let message = "the session could not be read: is the core of another release?";
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message);
    };
    let cookie = SessionCookie::new(&head.headers);
    // Always a new session: one that was there before, by whoever's hand, ends.
    console.end_session(&cookie, &head).await;
    let headers = AppendHeaders([(SET_COOKIE, cookie.set(&token, ttl)), json_type()]);
    (StatusCode::OK, PRIVATE, headers, operator.to_string()).into_response()
}

async fn opened_session(answer: Response) -> Option<(Value, SessionToken, Duration)> {
    let body = to_bytes(answer.into_body(), MAX_SESSION).await.ok()?;
    let OpenedSession { operator, token, ttl } = serde_json::from_slice(&body).ok()?;
    let seconds = ttl.strip_suffix('s')?.parse().ok()?;
    Some((operator, SessionToken::parse(&token)?, Duration::from_secs(seconds)))
}

/// `DELETE /console/session`: ends the session, if there is one.
async fn sign_out(State(console): State<Console>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let cookie = SessionCookie::new(&head.headers);
    let answer = match console.end_session(&cookie, &head).await {
        Some(failure) if failure.status().is_server_error() => failure,
        _ => (StatusCode::NO_CONTENT, PRIVATE).into_response(),
    };
    signed_out(&cookie, answer)
}

/// `/console/api/…`: the admin API, with the token of the session.
async fn forward(State(console): State<Console>, mut request: Request) -> Response {
    let cookie = SessionCookie::new(request.headers());
    let session = cookie.read(request.headers());
    let Some(credentials) = session.as_ref().and_then(Credentials::session) else {
        let message = "sign in: there is no session, or it has ended";
        return signed_out(&cookie, refuse(StatusCode::UNAUTHORIZED, "INVALID_OPERATOR_TOKEN", message));
    };
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    let path = path.strip_prefix(API_OF_CONSOLE).unwrap_or_default();
    let Ok(uri) = Uri::try_from(format!("{API}{path}")) else {
        return refuse(StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND", "there is no such path");
    };
    *request.uri_mut() = uri;
    let answer = console.ask(request, &credentials).await;
    if answer.status() == StatusCode::UNAUTHORIZED {
        return signed_out(&cookie, answer); // it has ended, by itself or with the operator's token
    }
    answer
}

impl Console {
    /// The answer of the admin API to a request with these credentials.
    async fn ask(&self, mut request: Request, credentials: &Credentials) -> Response {
        // What this router found out about the request is not for the other; who sent it is.
        let extensions = std::mem::take(request.extensions_mut());
        if let Some(peer) = extensions.get::<ConnectInfo<SocketAddr>>() {
            request.extensions_mut().insert(*peer);
        }
        let headers = request.headers_mut();
        headers.remove(COOKIE);
        headers.insert(AUTHORIZATION, credentials.header());
        let answer = match self.admin_api.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        (PRIVATE, answer).into_response()
    }

    /// Ends the session in the cookie of the request with this head; the answer, if there is such a cookie.
    async fn end_session(&self, cookie: &SessionCookie, head: &Parts) -> Option<Response> {
        let credentials = Credentials::session(&cookie.read(&head.headers)?)?;
        let request = without_body(head, Method::DELETE, CURRENT_SESSION);
        Some(self.ask(request, &credentials).await)
    }
}

/// A request without a body, from where the one with this head came.
fn without_body(head: &Parts, method: Method, path: &'static str) -> Request {
    let mut head = head.clone();
    (head.method, head.uri) = (method, Uri::from_static(path));
    head.headers.remove(CONTENT_TYPE);
    head.headers.remove(CONTENT_LENGTH);
    Request::from_parts(head, Body::empty())
}

/// Passes on what comes from the pages of this console.
async fn refuse_other_origins(request: Request, next: Next) -> Response {
    const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let headers = request.headers();
    // Browsers send the second field to addresses that they trust only: HTTPS and the same machine.
    let is_same_origin = headers.get(SEC_FETCH_SITE).is_none_or(|site| site == "same-origin");
    if headers.contains_key(OF_CONSOLE) && is_same_origin {
        return next.run(request).await;
    }
    let message = "only the console's own pages may ask this";
    refuse(StatusCode::FORBIDDEN, "CROSS_SITE_REQUEST", message)
}

/// The answer, which makes the browser forget the cookie.
fn signed_out(cookie: &SessionCookie, answer: Response) -> Response {
    (AppendHeaders([(SET_COOKIE, cookie.clear())]), answer).into_response()
}

/// An Error, as `/v1` has them.
fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "code": code, "message": message, "status": status.as_u16() }).to_string();
    (status, PRIVATE, AppendHeaders([json_type()]), Bytes::from(body)).into_response()
}

fn json_type() -> (HeaderName, HeaderValue) {
    (CONTENT_TYPE, HeaderValue::from_static("application/json"))
}
