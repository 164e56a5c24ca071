//! Completes an answer: an Error body if it failed, and the header fields that every answer carries.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use super::{context::RequestContext, rate_limit, rate_limit_headers};
use crate::{error::ApiError, gateway::GatewayState, rate_limit::Decision, request_id::X_REQUEST_ID};

/// Returns the answer as it is sent. `decision` is `None` if nothing was counted.
pub(super) async fn complete(
    gateway: &GatewayState,
    context: &RequestContext,
    decision: Option<Decision>,
    answered: Result<Response, ApiError>,
) -> Response {
    let mut response = match answered {
        Ok(response) if context.is_versioned => with_error_body(response),
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
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
