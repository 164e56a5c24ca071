//! The operator console: pages for a browser under `/console` on the admin port.
//!
//! The pages ask `/console/api/…`, which is the JSON admin API under a session: the cookie stands for the
//! operator's token, which the browser never holds. `/admin/v1/…` itself takes no cookie, so no page of
//! another site can use it.

mod pages;
mod session;
#[cfg(test)]
mod tests;
mod tokens;

use std::net::SocketAddr;

use axum::{
    Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, SET_COOKIE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{AppendHeaders, IntoResponse, Response},
    routing::{any, delete, post},
};
use bytes::Bytes;
use petstore_clock::Clock;
use serde::Deserialize;
use serde_json::json;
use tower::ServiceExt;

use session::{SessionCookie, Sessions};
use tokens::OperatorToken;

/// Where the admin API is.
const API: &str = "/admin/v1/";

/// Where the console reaches it.
const API_OF_CONSOLE: &str = "/console/api/";

/// Every request that means something carries this field. A page of another origin cannot set it without
/// asking first (CORS), and the answer to that is no.
const OF_CONSOLE: HeaderName = HeaderName::from_static("petstore-console");

/// A sign-in has at most so many bytes.
const MAX_SIGN_IN: usize = 1024;

/// On every answer that is not a page or an asset.
const PRIVATE: [(HeaderName, HeaderValue); 2] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

#[derive(Clone, Debug)]
struct Console {
    /// Serves `/admin/v1/…`, and asks for an operator's token.
    admin_api: Router,
    sessions: Sessions,
}

/// The console in front of an admin API, a router that serves `/admin/v1/…`.
pub fn console(admin_api: Router, clock: Clock) -> Router {
    let session = post(sign_in).merge(delete(sign_out)).layer(DefaultBodyLimit::max(MAX_SIGN_IN));
    Router::new()
        .route("/console/session", session)
        .route("/console/api/{*path}", any(forward))
        .with_state(Console { admin_api, sessions: Sessions::new(clock) })
        .merge(pages::routes())
}

/// What a browser sends to open a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// `POST /console/session`: opens a session for the token and answers as `GetCurrentOperator` does.
async fn sign_in(State(console): State<Console>, headers: HeaderMap, request: Request) -> Response {
    if !is_from_console(&headers) {
        return refuse(
            StatusCode::FORBIDDEN,
            "CROSS_SITE_REQUEST",
            "only the console's own pages may ask this",
        );
    }
    let (mut head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_SIGN_IN).await else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "a sign-in has at most 1 KiB");
    };
    let token = serde_json::from_slice(&body).ok().and_then(|SignIn { token }| OperatorToken::new(&token));
    let Some(token) = token else {
        let message = "an operator's token begins with pet_op_ and has no spaces in it";
        return refuse(StatusCode::BAD_REQUEST, "VALIDATION_FAILED", message);
    };
    head.method = http::Method::GET;
    head.uri = Uri::from_static("/admin/v1/operators/current");
    head.headers.remove(CONTENT_TYPE);
    head.headers.remove(http::header::CONTENT_LENGTH);
    let answer = console.ask(Request::from_parts(head, axum::body::Body::empty()), &token).await;
    if answer.status() != StatusCode::OK {
        return answer;
    }
    // Always a new identifier: one that was there before, by whoever's hand, ends.
    if let Some(old) = SessionCookie::of(&headers).read(&headers) {
        console.sessions.end(&old);
    }
    let id = console.sessions.open(token);
    let cookie = SessionCookie::of(&headers).set(&id);
    (AppendHeaders([(SET_COOKIE, cookie)]), answer).into_response()
}

/// `DELETE /console/session`: ends the session, if there is one.
async fn sign_out(State(console): State<Console>, headers: HeaderMap) -> Response {
    if !is_from_console(&headers) {
        return refuse(
            StatusCode::FORBIDDEN,
            "CROSS_SITE_REQUEST",
            "only the console's own pages may ask this",
        );
    }
    let cookie = SessionCookie::of(&headers);
    if let Some(id) = cookie.read(&headers) {
        console.sessions.end(&id);
    }
    (StatusCode::NO_CONTENT, PRIVATE, AppendHeaders([(SET_COOKIE, cookie.clear())])).into_response()
}

/// `/console/api/…`: the admin API, with the token of the session.
async fn forward(State(console): State<Console>, headers: HeaderMap, mut request: Request) -> Response {
    if !is_from_console(&headers) {
        return refuse(
            StatusCode::FORBIDDEN,
            "CROSS_SITE_REQUEST",
            "only the console's own pages may ask this",
        );
    }
    let cookie = SessionCookie::of(&headers);
    let Some((id, token)) =
        cookie.read(&headers).and_then(|id| Some((id.clone(), console.sessions.token(&id)?)))
    else {
        return signed_out(&cookie, no_session());
    };
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    let path = path.strip_prefix(API_OF_CONSOLE).unwrap_or_default();
    let Ok(uri) = Uri::try_from(format!("{API}{path}")) else {
        return refuse(StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND", "there is no such path");
    };
    *request.uri_mut() = uri;
    let answer = console.ask(request, &token).await;
    if answer.status() == StatusCode::UNAUTHORIZED {
        console.sessions.end(&id); // the token was revoked
        return signed_out(&cookie, answer);
    }
    answer
}

impl Console {
    /// The answer of the admin API to a request with this token.
    async fn ask(&self, mut request: Request, token: &OperatorToken) -> Response {
        // What this router found out about the request is not for the other; who sent it is.
        let extensions = std::mem::take(request.extensions_mut());
        if let Some(peer) = extensions.get::<ConnectInfo<SocketAddr>>() {
            request.extensions_mut().insert(*peer);
        }
        let headers = request.headers_mut();
        headers.remove(COOKIE);
        headers.insert(AUTHORIZATION, token.credentials());
        let answer = match self.admin_api.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        (PRIVATE, answer).into_response()
    }
}

/// Whether the request comes from a page of this console.
fn is_from_console(headers: &HeaderMap) -> bool {
    const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    // Browsers send the second field to addresses that they trust only: HTTPS and the same machine.
    let is_same_origin = headers.get(SEC_FETCH_SITE).is_none_or(|site| site == "same-origin");
    headers.contains_key(OF_CONSOLE) && is_same_origin
}

fn no_session() -> Response {
    refuse(
        StatusCode::UNAUTHORIZED,
        "INVALID_OPERATOR_TOKEN",
        "sign in: there is no session, or it has ended",
    )
}

/// The answer, which makes the browser forget the cookie.
fn signed_out(cookie: &SessionCookie, answer: Response) -> Response {
    (AppendHeaders([(SET_COOKIE, cookie.clear())]), answer).into_response()
}

/// An Error, as `/v1` has them.
fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "code": code, "message": message, "status": status.as_u16() }).to_string();
    let json = AppendHeaders([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    (status, PRIVATE, json, Bytes::from(body)).into_response()
}
