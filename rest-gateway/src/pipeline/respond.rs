//! Completes an answer with an Error body if it failed, and the header fields that every answer carries. Then
//! records it: usage, metrics, its span, and one line of the log.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use petstore_key_cache::KnownKey;
use petstore_proto::v1::ErrorReason;
use petstore_rate_limit::Decision;
use petstore_telemetry::{abandoned::caller_has_left, traces::KeyValue};

use super::{RequestContext, Sender, rate_limit, rate_limit_headers};
use crate::{
    cors,
    error::ApiError,
    gateway::GatewayState,
    metrics::RequestOutcome,
    operation::{Access, Counts, Id},
    problem,
    request_id::X_REQUEST_ID,
};

/// Time from which the request's key is refused, as an HTTP date. A key that never expires has none.
const X_API_KEY_EXPIRES: HeaderName = HeaderName::from_static("x-api-key-expires");

/// Returns the answer as it is sent. `decision` is `None` if nothing was counted.
pub(super) async fn complete(
    gateway: &GatewayState,
    context: &RequestContext,
    sender: &Sender,
    decision: Option<Decision>,
    answered: Result<Response, ApiError>,
) -> Response {
    let is_preflight = context.cors.as_ref().is_some_and(cors::Grant::allows_preflight);
    let mut response = match answered {
        Ok(response) if is_preflight && response.status() == StatusCode::NOT_FOUND => {
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(response) if context.is_versioned => with_error_body(response),
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    if context.prefers_problem {
        response =
            Box::pin(problem::from_error(response, &context.request_id, context.prefix.as_ref())).await;
    }
    let is_error = response.extensions().get::<ErrorReason>().is_some();
    let headers = response.headers_mut();
    if is_error && !context.is_versioned {
        headers.append(header::VARY, HeaderValue::from_static("accept")); // below /v1 nothing is stored
    }
    headers.insert(X_REQUEST_ID, context.request_id.as_header().clone());
    if context.is_versioned {
        let decision = match decision {
            Some(decision) => decision,
            None => context.within(Box::pin(rate_limit::peek(gateway, context.address))).await,
        };
        rate_limit_headers::write(&decision, headers);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Some(deprecation) = context.operation.deprecation {
        deprecation.write(headers);
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

/// Counts the answer and writes its line. The request id is the line's only text from the client, because its
/// characters are limited: a path or a query could hold a key.
pub(super) fn record(gateway: &GatewayState, context: &RequestContext, sender: &Sender, response: &Response) {
    let RequestContext { operation, scheme, .. } = context;
    let (key, known) = (sender.key(), sender.known_key().map(|key| &**key));
    match key {
        Some(key) if operation.counts == Counts::Quota => {
            gateway.usage.count(key, response.status(), operation.id == Id::GetPet);
        }
        // Operators see every answer, or an outage in which no key can be checked would look idle.
        _ if operation.access == Access::ApiKey => gateway.usage.count_without_account(response.status()),
        _ => {}
    }
    let took = context.started.elapsed();
    let status = response.status();
    let reason = response.extensions().get::<ErrorReason>().copied();
    let code = reason.map(|reason| reason.code().name);
    let plan = key.map(|key| key.plan);
    let client_left = caller_has_left();
    gateway.metrics.answered(&RequestOutcome { operation, scheme, status, reason, plan, took, client_left });
    let status = status.as_u16();
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

/// Describes the answer in the request's span.
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
}
