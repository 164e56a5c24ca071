//! Completes a response with an Error body if it failed, and the header fields that every response carries.
//! Then records it: usage, metrics, its span, and one line of the log.

use axum::{
    body::{Body, HttpBody},
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use petstore_key_cache::KnownKey;
use petstore_rate_limit::{Decision, Scope, put_number};
use petstore_telemetry::{abandoned::caller_has_left, traces::KeyValue};

use super::{RequestContext, Sender, rate_limit};
use crate::{
    cors, deprecation::DEPRECATION, error::ApiError, gateway::GatewayState, operation::Counts, problem,
    request::X_REQUEST_ID,
};

/// Time from which the request's key is refused, as an HTTP date. A key that never expires has none.
const X_API_KEY_EXPIRES: HeaderName = HeaderName::from_static("x-api-key-expires");

/// Returns the response as it is sent. `decision` is `None` if nothing was counted.
pub(super) async fn complete(
    gateway: &GatewayState,
    context: &RequestContext,
    sender: &Sender,
    decision: Option<Decision>,
    response: Result<Response, ApiError>,
) -> Response {
    let is_preflight = context.cors.as_ref().is_some_and(cors::Grant::allows_preflight);
    let mut response = match response {
        Ok(response) if is_preflight && response.status() == StatusCode::NOT_FOUND => {
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(response) if context.is_versioned => with_error_body(response),
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    let is_error = response.extensions().get::<ApiError>().is_some();
    if is_error && context.prefers_problem {
        problem::write(&mut response, &context.request_id, context.prefix.as_ref());
    }
    if context.is_head {
        remove_body(&mut response);
    }
    let headers = response.headers_mut();
    headers.reserve(12); // once, for what follows
    if is_error && !context.is_versioned {
        headers.append(header::VARY, HeaderValue::from_static("accept")); // below /v1 nothing is stored
    }
    headers.insert(X_REQUEST_ID, context.request_id.as_header().clone());
    if context.is_versioned {
        let decision = match decision {
            Some(decision) => decision,
            None => context.span.within(Box::pin(rate_limit::peek(gateway, context.address))).await,
        };
        write_rate_limit(&decision, headers);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if context.operation.is_deprecated {
        for (name, value) in DEPRECATION {
            headers.append(name, value);
        }
    }
    context.operation.stability.write(headers);
    if let Some(expires_at) = sender.key().and_then(|key| key.expires_at)
        && let Ok(date) = HeaderValue::try_from(expires_at.to_http_date())
    {
        headers.insert(X_API_KEY_EXPIRES, date);
    }
    if let Some(prefix) = &context.prefix {
        prefix.write(headers);
    }
    if let Some(grant) = &context.cors {
        grant.write(headers);
    }
    response
}

/// Removes the body of a response to HEAD, with the length of that to GET (RFC 9110 §9.3.2).
fn remove_body(response: &mut Response) {
    if let Some(len) = response.body().size_hint().exact() {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(len));
    }
    *response.body_mut() = Body::empty();
}

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const SCOPE: HeaderName = HeaderName::from_static("x-ratelimit-scope");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Shows a limiter's decision (docs/contract.md, 6.5): writes its header fields, each exactly once, and
/// replaces earlier values. The values share one allocation.
fn write_rate_limit(decision: &Decision, headers: &mut HeaderMap) {
    let shown = decision.shown();
    let mut text = BytesMut::with_capacity(160); // it only grows for very large numbers
    for (name, number) in
        [(LIMIT, shown.limit), (REMAINING, shown.remaining), (RESET, shown.resets_at.as_secs_ceil())]
    {
        put_number(&mut text, number);
        insert(headers, name, &mut text);
    }
    decision.write_rate_limit_policy(&mut text);
    insert(headers, POLICY, &mut text);
    decision.write_rate_limit(&mut text);
    insert(headers, STATE, &mut text);
    if decision.scope == Scope::Node {
        headers.insert(SCOPE, HeaderValue::from_static("node"));
    }
}

/// Moves the text into the field.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &mut BytesMut) {
    if let Ok(value) = HeaderValue::from_maybe_shared(text.split().freeze()) {
        headers.insert(name, value);
    }
}

/// Returns the response, or an Error body in place of a failure without one: libraries make those, in plain
/// text.
fn with_error_body(response: Response) -> Response {
    let json = HeaderValue::from_static("application/json");
    if response.status().is_success() || response.headers().get(header::CONTENT_TYPE) == Some(&json) {
        return response;
    }
    tracing::warn!(status = response.status().as_u16(), "replaced an answer that had no Error body");
    ApiError::replacing(response.status()).into_response()
}

/// Counts the response and writes its line. The request id is the line's only text from the client, because
/// its characters are limited: a path or a query could hold a key.
pub(super) fn record(gateway: &GatewayState, context: &RequestContext, sender: &Sender, response: &Response) {
    let RequestContext { operation, scheme, .. } = context;
    let (key, known) = (sender.key(), sender.known_key().map(|key| &**key));
    match key {
        Some(key) if operation.counts == Counts::Quota => {
            gateway.usage.count(key, response.status(), operation.name == "getPet");
        }
        // Operators see every response, or an outage in which no key can be checked would look idle.
        _ if operation.counts != Counts::Nothing => gateway.usage.count_without_account(response.status()),
        _ => {}
    }
    let (labels, took) = ([operation.name, operation.method, operation.path], context.started.elapsed());
    gateway.metrics.count_response(labels, scheme, response, key.map(|key| key.plan), took);
    let status = response.status().as_u16();
    let code = response.extensions().get().map(|error: &ApiError| error.reason().code().name);
    let client_left = caller_has_left();
    describe(context, known, status, code);
    if client_left {
        context.span.describe(|| [KeyValue::new("petstore.client_left", true)]);
    }
    tracing::info!(
        target: "petstore_gateway::requests",
        request_id = context.request_id.as_str(),
        operation = operation.name,
        status,
        code,
        duration_ms = (took.as_secs_f64() * 1_000_000.0).round() / 1_000.0,
        account_id = known.map(|key| key.account_id),
        key_id = known.map(|key| &*key.key_id),
        client = %context.address,
        client_left = client_left.then_some(true),
        trace_id = context.span.trace_id().map(tracing::field::display),
        "answered"
    );
}

/// Describes the response in the request's span.
fn describe(context: &RequestContext, key: Option<&KnownKey>, status: u16, code: Option<&'static str>) {
    let RequestContext { operation, scheme, span, .. } = context;
    span.describe(|| {
        [
            KeyValue::new("http.request.method", operation.method),
            KeyValue::new("http.response.status_code", i64::from(status)),
            KeyValue::new("url.scheme", *scheme),
            KeyValue::new("client.address", context.address.to_string()),
            KeyValue::new("petstore.operation", operation.name),
            KeyValue::new("petstore.code", code.unwrap_or("OK")),
            KeyValue::new("petstore.request_id", context.request_id.as_str().to_owned()),
        ]
    });
    if !operation.path.is_empty() {
        span.describe(|| [KeyValue::new("http.route", operation.path)]);
    }
    if let Some(key) = key {
        span.describe(|| {
            [
                KeyValue::new("petstore.account_id", key.account_id),
                KeyValue::new("petstore.key_id", key.key_id.to_string()),
            ]
        });
    }
    if status >= 500 {
        span.fail(code.unwrap_or("INTERNAL"));
    }
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;
    use petstore_rate_limit::{Outcome, WindowView};

    use super::*;

    #[test]
    fn a_failure_in_plain_text_is_replaced_and_an_error_body_kept() {
        let replaced = with_error_body((http::StatusCode::PAYLOAD_TOO_LARGE, "too big").into_response());
        assert_eq!(replaced.status(), 413);
        assert_eq!(replaced.headers()[header::CONTENT_TYPE], "application/json");
        let odd = with_error_body(http::StatusCode::IM_A_TEAPOT.into_response());
        assert_eq!(odd.status(), 500);
        let kept = with_error_body(ApiError::MethodNotAllowed { allow: "GET".to_owned() }.into_response());
        assert_eq!(kept.headers()[header::ALLOW], "GET");
    }

    fn decision(scope: Scope) -> Decision {
        Decision {
            outcome: Outcome::Admitted,
            is_strike: false,
            struck_out_at: None,
            now: UnixMillis(1_764_892_790_500),
            minute: WindowView { limit: 60, remaining: 59, resets_at: UnixMillis(1_764_892_832_001) },
            day: WindowView { limit: 1_000, remaining: 999, resets_at: UnixMillis(1_764_979_200_000) },
            ban: None,
            scope,
        }
    }

    #[test]
    fn both_windows_are_shown_and_the_tighter_one_in_every_field() {
        let mut headers = HeaderMap::new();
        headers.append(LIMIT, HeaderValue::from_static("7"));
        write_rate_limit(&decision(Scope::Shared), &mut headers);
        let shown = |name: HeaderName| {
            assert_eq!(headers.get_all(&name).iter().count(), 1, "{name}");
            headers[&name].to_str().unwrap()
        };
        assert_eq!((shown(LIMIT), shown(REMAINING), shown(RESET)), ("60", "59", "1764892833"));
        assert_eq!(shown(POLICY), r#""minute";q=60;w=60, "day";q=1000;w=86400"#);
        assert_eq!(shown(STATE), r#""minute";r=59;t=42, "day";r=999;t=86410"#);
        assert!(!headers.contains_key(SCOPE));
        write_rate_limit(&decision(Scope::Node), &mut headers);
        assert_eq!(headers[SCOPE], "node");
    }
}
