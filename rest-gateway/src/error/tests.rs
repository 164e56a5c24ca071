use std::collections::HashMap;

use axum::body::to_bytes;
use petstore_clock::UnixMillis;
use petstore_proto::ERROR_DOMAIN;
use petstore_rate_limit::{BanCause, BanPeriod, Scope, WindowView};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::*;

fn status_with(code: Code, reason: &str, domain: &str, delay: Option<Duration>) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, domain, HashMap::new());
    details.set_retry_info(delay);
    Status::with_error_details(code, "said by the core", details)
}

async fn answer(error: ApiError) -> (u16, http::HeaderMap, serde_json::Value) {
    let response = error.into_response();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn an_error_body_has_exactly_code_message_and_status() {
    let (status, headers, body) = answer(ApiError::MissingApiKey).await;
    assert_eq!(status, 401);
    assert_eq!(
        body,
        serde_json::json!({
            "code": "MISSING_API_KEY",
            "message": ApiError::MissingApiKey.to_string(),
            "status": 401,
        })
    );
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(headers[header::WWW_AUTHENTICATE], r#"Bearer realm="petstore""#);
    assert_eq!(headers[header::LINK], r#"</docs/errors/MISSING_API_KEY>; rel="help""#);
}

#[test]
fn an_answer_without_an_error_body_gets_that_of_its_status() {
    for (status, code) in [
        (404, ErrorReason::RouteNotFound),
        (408, ErrorReason::RequestTimeout),
        (413, ErrorReason::BodyTooLarge),
        (415, ErrorReason::UnsupportedMediaType),
        (418, ErrorReason::Internal),
        (500, ErrorReason::Internal),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(ApiError::replacing(status).reason(), code, "{status}");
    }
}

#[tokio::test]
async fn a_refused_credential_is_called_an_invalid_token() {
    let refused = [ApiError::InvalidApiKey, ApiError::ApiKeyRevoked, ApiError::ApiKeyExpired];
    for error in refused {
        let (status, headers, _) = answer(error).await;
        assert_eq!(status, 401);
        assert_eq!(headers[header::WWW_AUTHENTICATE], r#"Bearer realm="petstore", error="invalid_token""#);
    }
}

#[tokio::test]
async fn a_429_names_its_cause_and_its_end() {
    let window = |limit, remaining, reset| WindowView { limit, remaining, resets_at: UnixMillis(reset) };
    let decision = Decision {
        outcome: Outcome::RateLimited,
        is_strike: false,
        struck_out_at: None,
        now: UnixMillis(1_764_892_790_500),
        minute: window(60, 0, 1_764_892_799_001),
        day: window(1_000, 940, 1_764_979_200_000),
        ban: None,
        scope: Scope::Shared,
    };
    let (status, headers, body) = answer(ApiError::OverLimit(decision, "requests")).await;
    assert_eq!((status, body["code"].as_str()), (429, Some("RATE_LIMITED")));
    assert_eq!(headers[header::RETRY_AFTER], "9");
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("60") && message.contains("2025-12-05T00:00:00Z"), "{message}");

    let ban = BanPeriod { from: decision.now, until: UnixMillis(decision.now.0 + 300_000) };
    let banned = Decision { outcome: Outcome::Admitted, ban: Some(ban), ..decision };
    let (_, headers, _) = answer(ApiError::Banned(Box::new(banned), BanCause::IgnoredRefusals)).await;
    assert_eq!(headers[header::RETRY_AFTER], "300");
}

#[test]
fn every_reason_of_the_core_keeps_its_code_and_others_are_faults() {
    for reason in ErrorReason::all() {
        // The code UNKNOWN decides for a reason that the core does not give.
        let error = ApiError::from(&status_with(Code::Unknown, reason.code().name, ERROR_DOMAIN, None));
        let is_of_the_call = matches!(
            reason,
            ErrorReason::InvalidRequest | ErrorReason::BodyTooLarge | ErrorReason::UnsupportedMediaType
        );
        if reason.code().grpc.is_none() || is_of_the_call || reason == ErrorReason::Internal {
            assert_eq!(error, ApiError::Internal, "{reason:?}");
        } else if reason == ErrorReason::RouteNotFound {
            assert_eq!(error, ApiError::Unavailable { retry_after: None }, "a core without the method");
        } else {
            assert_eq!((error.reason(), error.status()), (reason, reason.code().http));
            let is_renamed = error.to_string().contains("Idempotency-Key"); // as on this edge
            assert!(is_renamed || error.to_string() == "said by the core", "{error}");
        }
    }
}

#[test]
fn a_status_without_a_known_reason_is_mapped_by_its_code() {
    for number in 0..=16 {
        let code = Code::from_i32(number);
        let expected = match code {
            Code::InvalidArgument => 400,
            Code::NotFound => 404,
            Code::Unavailable
            | Code::ResourceExhausted
            | Code::Cancelled
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented => 503,
            Code::DeadlineExceeded => 504,
            _ => 500,
        };
        for status in [
            Status::new(code, "internals"),
            status_with(code, "NO_SUCH_REASON", ERROR_DOMAIN, None),
            status_with(code, "PET_NOT_FOUND", "someone.else", None),
        ] {
            let error = ApiError::from(&status);
            assert_eq!(error.status().as_u16(), expected, "{code:?}");
            let message = error.to_string();
            assert!(!message.contains("internals") && !message.contains("said by"), "{message}");
        }
    }
}

#[test]
fn tonics_own_timeout_is_504_and_a_broken_transport_503() {
    assert_eq!(ApiError::from(&Status::cancelled("Timeout expired")), ApiError::DeadlineExceeded);
    let away = ApiError::Unavailable { retry_after: None };
    assert_eq!(ApiError::from(&Status::unknown("transport error")), away);
    assert_eq!(ApiError::from(&Status::unknown("Service was not ready: transport error")), away);
    assert_eq!(ApiError::from(&Status::from_error("connection reset".into())), away);
    assert_eq!(ApiError::from(&Status::unknown("a server said so")), ApiError::Internal);
    // Half an answer is INTERNAL to tonic.
    let mut half = Status::internal("h2 protocol error");
    half.set_source(std::sync::Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
    assert_eq!(ApiError::from(&half), away);
}

#[test]
fn an_internal_error_never_shows_the_cores_message() {
    let status = status_with(Code::Internal, "INTERNAL", ERROR_DOMAIN, None);
    assert_eq!(ApiError::from(&status), ApiError::Internal);
}

#[tokio::test]
async fn retry_after_of_a_503_is_the_cores_delay_rounded_up_or_a_second() {
    for (delay, expected) in [(None, "1"), (Some(0), "1"), (Some(1_000), "1"), (Some(2_001), "3")] {
        let delay = delay.map(Duration::from_millis);
        for status in [
            status_with(Code::Unavailable, "UNAVAILABLE", ERROR_DOMAIN, delay),
            status_with(Code::Unavailable, "?", "?", delay),
            status_with(Code::ResourceExhausted, "?", "?", delay),
        ] {
            let (status, headers, _) = answer(ApiError::from(&status)).await;
            assert_eq!((status, headers[header::RETRY_AFTER].to_str().unwrap()), (503, expected));
        }
    }
    let (_, headers, _) = answer(ApiError::IdempotencyInProgress { retry_after: None }).await;
    assert_eq!(headers[header::RETRY_AFTER], "1");
    let (_, headers, _) = answer(ApiError::from(LimiterUnavailable)).await;
    assert_eq!(headers[header::RETRY_AFTER], "1");
}
