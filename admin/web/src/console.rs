//! The operator console: pages for a browser under `/console` on the admin port.
//!
//! The pages call `/console/api/…`, which is the JSON admin API with a session. The token of the session is
//! in a cookie that no script can read. The core keeps the token's digest, so every gateway knows the
//! session. `/admin/v1/…` itself accepts no cookie, so no page of another site can use it.

mod cookie;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
        header::{
            AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN,
            SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
        },
        request::Parts,
        uri::Authority,
    },
    middleware::{self, Next},
    response::{AppendHeaders, IntoResponse, Response},
    routing::{any, delete, get, post},
};
use cookie::{MAX_SESSIONS, SessionCookie};
use petstore_caller::{api_key::OperatorToken, headers::only_field};
use petstore_gateway::{
    Gateway, docs, embedded, error_response, json_response,
    representation::{Representation, strict},
    strict_members,
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api::{self, AdminState, CallRecord};

/// Path of the admin API.
const API: &str = "/admin/v1/";

/// Header fields of every answer that is not a page or an asset.
const PRIVATE: [(HeaderName, HeaderValue); 2] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

/// Serves `/admin/v1/…`, and requires the token of an operator or of a session.
#[derive(Clone, Debug)]
struct Console(Router);

/// Health of the process in the form of `/readyz`, as an extension of requests to [`HEALTH`].
#[derive(Clone, Debug)]
pub struct ProcessHealth(pub Value);

/// Path of the console at which its pages find the health of the process. `/readyz` and `/metrics` are not
/// theirs: a proxy in front of the console keeps them inside.
pub const HEALTH: &str = "/console/health";

/// Returns the admin API, below `/admin/v1`, and the console on top of it. The public port must not serve
/// them. Each request needs the address of its peer (`axum::extract::ConnectInfo<SocketAddr>`), and passes
/// through [`answer_operator`](crate::answer_operator) first. One to [`HEALTH`] also has a [`ProcessHealth`].
pub fn admin_router(gateway: &Gateway) -> Router {
    let api = api::api(Arc::new(AdminState::new(gateway)));
    console(api.clone()).merge(api)
}

/// Returns the console in front of an admin API, which is a router that serves `/admin/v1/…`.
fn console(admin_api: Router) -> Router {
    Router::new()
        .route(HEALTH, get(health))
        .route("/console/session", post(sign_in).merge(delete(sign_out)))
        .route("/console/api/{*path}", any(forward))
        .layer(middleware::from_fn(refuse_other_origins))
        .with_state(Console(admin_api))
        .merge(pages())
        .method_not_allowed_fallback(async || (PRIVATE, api::method_not_allowed()))
}

/// Handles `POST /console/session`: opens a session for the token and answers as `GetCurrentOperator` does.
async fn sign_in(State(console): State<Console>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, 1024).await else {
        let message = "a sign-in request has at most 1 KiB";
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", message);
    };
    // Anything but one object with this text alone is answered as a text that is no token.
    let typed = strict_members(&body).unwrap_or_default();
    let token = match &typed[..] {
        [(name, Value::String(token))] if name == "token" => Some(token.trim()),
        _ => None,
    };
    let Some(token) = token.filter(|token| is_tokenlike(token)) else {
        let message = "an operator's token begins with pet_op_ and has no spaces in it";
        return refuse(StatusCode::BAD_REQUEST, "VALIDATION_FAILED", message);
    };
    let answer = console.ask(without_body(&head, Method::POST, "/admin/v1/sessions"), token).await;
    if answer.status() != StatusCode::CREATED {
        return answer;
    }
    let record: Option<CallRecord> = answer.extensions().get().cloned();
    let Some((operator, token, ttl)) = opened_session(answer).await else {
        let message = "the session could not be read: is the core of another release?";
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message);
    };
    let cookie = SessionCookie::new(&head.headers);
    // Always a new session. Earlier ones end, so a session that was planted is of no use.
    for session in cookie.read_all(&head.headers) {
        console.end_session(&session, &head).await;
    }
    let answer = json_response(StatusCode::OK, operator.to_string());
    (record.map(Extension), with_cookies(cookie.set(&token, ttl), (PRIVATE, answer).into_response()))
        .into_response()
}

/// Returns `true` if the text has the form of an operator's token. The core judges it.
fn is_tokenlike(typed: &str) -> bool {
    let secret = typed.strip_prefix(OperatorToken::PREFIX).unwrap_or_default();
    (1..=128).contains(&secret.len()) && secret.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Reads the answer of the admin API to a sign-in: operator, token and lifetime, such as `28800s`.
async fn opened_session(answer: Response) -> Option<(Value, OperatorToken, Duration)> {
    let body = to_bytes(answer.into_body(), 16 * 1024).await.ok()?;
    let mut session: Value = serde_json::from_slice(&body).ok()?;
    let seconds = session["ttl"].as_str()?.strip_suffix('s')?.parse().ok()?;
    let token = OperatorToken::parse(session["token"].as_str()?)?;
    Some((session["operator"].take(), token, Duration::from_secs(seconds)))
}

/// Handles `DELETE /console/session`: ends the session, if there is one. The answer is 204 only if no session
/// is left.
async fn sign_out(State(console): State<Console>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let cookie = SessionCookie::new(&head.headers);
    let mut answer = (StatusCode::NO_CONTENT, PRIVATE).into_response();
    for session in cookie.read_all(&head.headers) {
        let ended = console.end_session(&session, &head).await;
        // A session that the core does not know has ended before.
        if ended.status().is_success() || ended.status() == StatusCode::UNAUTHORIZED {
            let record: Option<CallRecord> = ended.extensions().get().cloned();
            answer = (record.map(Extension), answer).into_response();
        } else {
            return signed_out(&cookie, &head, ended);
        }
    }
    signed_out(&cookie, &head, answer)
}

/// Handles `GET /console/health`: the health of the process, which the sign-in page shows too.
async fn health(health: Option<Extension<ProcessHealth>>) -> Response {
    let body = health.map_or_else(|| json!({}), |Extension(ProcessHealth(health))| health);
    (PRIVATE, json_response(StatusCode::OK, body.to_string())).into_response()
}

/// Handles `/console/api/…`: calls the admin API with the token of the session.
async fn forward(State(console): State<Console>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let (asked, cookie) = (head.clone(), SessionCookie::new(&head.headers));
    let session = match console.open_session(&cookie, &head).await {
        Ok(Some(session)) => session,
        Ok(None) => {
            let message = "sign in: there is no session, or it has ended";
            let refusal = refuse(StatusCode::UNAUTHORIZED, "INVALID_OPERATOR_TOKEN", message);
            return signed_out(&cookie, &asked, refusal);
        }
        Err(refusal) => return refusal,
    };
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let path = path.strip_prefix("/console/api/").unwrap_or_default();
    let Ok(uri) = Uri::try_from(format!("{API}{path}")) else {
        return refuse(StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND", "there is no such path");
    };
    head.uri = uri;
    let answer = console.ask(Request::from_parts(head, body), session.expose()).await;
    if answer.status() == StatusCode::UNAUTHORIZED {
        return signed_out(&cookie, &asked, answer); // it has ended, or the operator's token was revoked
    }
    answer
}

impl Console {
    /// Returns the admin API's answer to a request with this token.
    async fn ask(&self, mut request: Request, token: &str) -> Response {
        let Ok(mut authorization) = HeaderValue::try_from(format!("Bearer {token}")) else {
            return refuse(StatusCode::UNAUTHORIZED, "INVALID_OPERATOR_TOKEN", "this is no token");
        };
        authorization.set_sensitive(true);
        // The admin API needs only the peer from the extensions of this router's request.
        let extensions = std::mem::take(request.extensions_mut());
        if let Some(peer) = extensions.get::<ConnectInfo<SocketAddr>>() {
            request.extensions_mut().insert(*peer);
        }
        let headers = request.headers_mut();
        headers.remove(COOKIE);
        headers.insert(AUTHORIZATION, authorization);
        (PRIVATE, self.0.clone().oneshot(request).await).into_response()
    }

    /// Ends a session for a request with this head.
    async fn end_session(&self, session: &OperatorToken, head: &Parts) -> Response {
        self.ask(without_body(head, Method::DELETE, "/admin/v1/sessions/current"), session.expose()).await
    }

    /// Returns the session of a request, if it has one.
    ///
    /// # Errors
    ///
    /// If the request has several sessions that have not ended, because then one may have been planted, so
    /// that the operator would act as another one; or if the core does not answer. The error is the response.
    async fn open_session(
        &self,
        cookie: &SessionCookie,
        head: &Parts,
    ) -> Result<Option<OperatorToken>, Response> {
        let mut sessions = cookie.read(&head.headers);
        if sessions.len() < 2 {
            return Ok(sessions.pop());
        }
        let mut open = None;
        let mut has_several = sessions.len() > MAX_SESSIONS;
        for session in sessions.into_iter().take(MAX_SESSIONS) {
            if has_several {
                break;
            }
            let whose = without_body(head, Method::GET, "/admin/v1/operators/current");
            let whose = self.ask(whose, session.expose()).await;
            if whose.status().is_success() {
                has_several = open.replace(session).is_some();
            } else if whose.status().is_server_error() {
                return Err(whose);
            } // otherwise it has ended: even among many failed attempts, an open one is accepted
        }
        if !has_several {
            return Ok(open);
        }
        let message = "this browser has the sessions of two sign-ins, and another page may have planted one \
                       of them: sign in again";
        let refusal = refuse(StatusCode::UNAUTHORIZED, "SEVERAL_SESSIONS", message);
        Err(signed_out(cookie, head, refusal))
    }
}

/// Returns a request without a body, with the origin of the request that has this head.
fn without_body(head: &Parts, method: Method, path: &'static str) -> Request {
    let mut head = head.clone();
    (head.method, head.uri) = (method, Uri::from_static(path));
    head.headers.remove(CONTENT_TYPE);
    head.headers.remove(CONTENT_LENGTH);
    Request::from_parts(head, Body::empty())
}

/// Forwards requests that come from the pages of this console, and refuses others.
async fn refuse_other_origins(request: Request, next: Next) -> Response {
    let headers = request.headers();
    // Browsers send this field only to addresses that they trust: HTTPS and the same machine.
    let is_same_site = headers.get_all("sec-fetch-site").iter().all(|site| site == "same-origin");
    // A page of another origin cannot set this field without a preflight (CORS), which is refused.
    let is_of_console = headers.contains_key("petstore-console");
    if is_of_console && is_same_site && is_own_origin(&request) {
        return next.run(request).await;
    }
    let message = "only the console's own pages may send this request";
    refuse(StatusCode::FORBIDDEN, "CROSS_SITE_REQUEST", message)
}

/// Forwards requests that no page of another origin has sent.
pub async fn refuse_foreign_pages(request: Request, next: Next) -> Response {
    if is_own_origin(&request) {
        return next.run(request).await;
    }
    refuse(StatusCode::FORBIDDEN, "CROSS_SITE_REQUEST", "pages of another origin may not send this request")
}

/// Returns `true` if the request names no origin, or the one that it is sent to.
fn is_own_origin(request: &Request) -> bool {
    let Ok(origin) = only_field(request.headers(), ORIGIN) else { return false };
    let Some(origin) = origin else { return true };
    let Some((scheme, origin)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    let default_port = if scheme == "https" { 443 } else { 80 };
    let parts = |authority: &Authority| {
        let port = authority.port_u16().unwrap_or(default_port);
        (authority.host().to_ascii_lowercase(), port)
    };
    let host = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
    let asked = request.uri().authority().cloned().or_else(host);
    origin.parse().ok().zip(asked).is_some_and(|(origin, asked)| parts(&origin) == parts(&asked))
}

/// Returns the answer with fields that make the browser forget the cookies of the request.
fn signed_out(cookie: &SessionCookie, head: &Parts, answer: Response) -> Response {
    with_cookies(cookie.clear(&head.headers, head.uri.path()), answer)
}

fn with_cookies(fields: Vec<HeaderValue>, answer: Response) -> Response {
    (AppendHeaders(fields.into_iter().map(|field| (SET_COOKIE, field))), answer).into_response()
}

/// Returns an answer with an Error body, as `/v1` has them.
fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    (PRIVATE, error_response(status, code, message)).into_response()
}

/// Paths of pages. All are one document, in which a script shows the page of the path.
const PAGES: [&str; 10] = [
    "/console",
    "/console/accounts",
    "/console/accounts/{name}",
    "/console/keys",
    "/console/keys/{id}",
    "/console/find-keys",
    "/console/bans",
    "/console/refusals",
    "/console/audit",
    "/console/operators",
];

/// Redirect to the first page. Temporary, because browsers keep a permanent redirect.
const TO_CONSOLE: AppendHeaders<[(HeaderName, HeaderValue); 1]> =
    AppendHeaders([(LOCATION, HeaderValue::from_static("/console"))]);

/// Files that the pages share with the documentation.
const SHARED_ASSETS: [&str; 4] = ["docs.css", "icon.svg", "theme.js", "element.mjs"];

const ASSETS: &[(&str, &str)] = &embedded!("console/assets/":
    "console.css" "main.mjs" "api.mjs" "chart.mjs" "dialog.mjs" "format.mjs" "session.mjs" "view.mjs"
    "overview.mjs" "accounts.mjs" "account.mjs" "keys.mjs" "key.mjs" "find.mjs" "refusals.mjs" "audit.mjs"
    "operators.mjs");

/// Serves every page and asset. Other paths below `/console` are pages too, with status 404, and `/` leads to
/// the console.
fn pages() -> Router {
    let document =
        |status| Representation::html(status, || include_str!("console/assets/console.html").to_owned());
    let (page, missing) = (document(StatusCode::OK), document(StatusCode::NOT_FOUND));
    let mut router = Router::new();
    for path in PAGES {
        router = serve(router, path, page.clone());
    }
    let shared = docs::ASSETS.iter().filter(|(name, _)| SHARED_ASSETS.contains(name));
    for (name, content) in shared.chain(ASSETS) {
        router = serve(router, &format!("/console/assets/{name}"), Representation::asset(name, content));
    }
    for path in ["/", "/console/"] {
        router = router.route(path, get(async || strict((StatusCode::FOUND, TO_CONSOLE).into_response())));
    }
    serve(router, "/console/{*path}", missing)
}

fn serve(router: Router, path: &str, resource: Representation) -> Router {
    router.route(path, get(async move |headers: HeaderMap| resource.page(&headers)))
}
