//! Every way in which the edge refuses or fails. This is the only place that maps an error to a status and an
//! Error body (docs/contract.md, 2.4 and 8).

use std::{sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use petstore_clock::whole_secs;
use petstore_proto::{Retry, v1::ErrorReason};
use serde::Serialize;

use crate::rate_limit::{BanCause, Decision, LimiterUnavailable, Outcome};

mod from_core;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use from_core::is_transport_failure;

/// Reason for an Error body in place of the requested answer. `Display` is the body's `message`, which is
/// safe for a client. Causes are logged where the error is made.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("the request must carry exactly one Host field with a host name or address")]
    InvalidHost,
    #[error("the body does not match what its header fields announce")]
    BrokenBody,
    #[error("the only Transfer-Encoding that is supported is chunked")]
    UnsupportedTransferCoding,
    #[error("the request target must be at most 8192 bytes")]
    UriTooLong,
    #[error("the header fields must be at most 100 and at most 32768 bytes together")]
    HeadersTooLarge,

    #[error("an API key is required: send the header Authorization: Bearer <API_KEY>")]
    MissingApiKey,
    #[error("the API key is not valid")]
    InvalidApiKey,
    #[error("the API key was revoked")]
    ApiKeyRevoked,
    #[error("the API key has expired")]
    ApiKeyExpired,
    #[error("{}", suspension_message(.reason))]
    AccountSuspended { reason: Arc<str> },
    /// The core is unreachable, and the key is not cached, or stale.
    #[error("the API key cannot be checked at the moment")]
    ApiKeyNotChecked,
    #[error("too many API keys are being looked up at the moment")]
    TooManyKeyLookups,
    /// Refusal by the limiter, whose decision holds the reason and the end.
    #[error("{}", .0.refusal_message().unwrap_or_default())]
    OverLimit(Decision),
    /// Ban of the key, with the decision and the cause.
    #[error("{}", .0.ban_message(.1))]
    Banned(Box<Decision>, BanCause),

    #[error("there is nothing at this path")]
    RouteNotFound,
    #[error("this path serves only {allow}")]
    MethodNotAllowed { allow: String },
    #[error("this operation was removed on 5 December 2030; use GET /v1/pets with status instead")]
    OperationRemoved,
    #[error(
        "the body must be JSON in UTF-8 without a content coding, sent with Content-Type: application/json"
    )]
    UnsupportedMediaType,
    #[error("the body must be at most 65536 bytes")]
    BodyTooLarge,
    #[error("the body must arrive within 5 seconds")]
    RequestTimeout,

    #[error("{0}")]
    MalformedJson(String),
    #[error("{0}")]
    ValidationFailed(String),
    #[error("{0}")]
    InvalidParameter(String),
    #[error("{0}")]
    InvalidCursor(String),
    #[error("Idempotency-Key must be one field of 1 to 255 visible ASCII characters")]
    InvalidIdempotencyKey,
    #[error("a request with this Idempotency-Key is still in progress")]
    IdempotencyInProgress { retry_after: Option<Duration> },
    #[error("this Idempotency-Key was used for another pet")]
    IdempotencyKeyReused,
    #[error("there is no pet with this id")]
    PetNotFound,

    /// Refusal by the core, with its own message.
    #[error("{message}")]
    Core { reason: ErrorReason, message: String, retry_after: Option<Duration> },
    #[error("the service is not available at the moment")]
    Unavailable { retry_after: Option<Duration> },
    #[error("the service has more to do than it can; try again later")]
    Overloaded { retry_after: Option<Duration> },
    #[error("requests cannot be counted at the moment")]
    LimiterUnavailable(#[from] LimiterUnavailable),
    #[error("the service did not answer in time")]
    DeadlineExceeded,
    #[error("the service failed; the fault is on its side")]
    Internal,
}

impl ApiError {
    /// Returns the machine-readable reason.
    pub(crate) const fn reason(&self) -> ErrorReason {
        match self {
            Self::InvalidHost | Self::BrokenBody => ErrorReason::InvalidRequest,
            Self::UnsupportedTransferCoding => ErrorReason::UnsupportedTransferCoding,
            Self::UriTooLong => ErrorReason::UriTooLong,
            Self::HeadersTooLarge => ErrorReason::HeadersTooLarge,
            Self::MissingApiKey => ErrorReason::MissingApiKey,
            Self::InvalidApiKey => ErrorReason::InvalidApiKey,
            Self::ApiKeyRevoked => ErrorReason::ApiKeyRevoked,
            Self::ApiKeyExpired => ErrorReason::ApiKeyExpired,
            Self::AccountSuspended { .. } => ErrorReason::AccountSuspended,
            Self::OverLimit(decision) => match decision.outcome {
                // `Admitted` is not a refusal, so this error is never made from it.
                Outcome::RateLimited | Outcome::Admitted => ErrorReason::RateLimited,
                Outcome::QuotaExceeded => ErrorReason::QuotaExceeded,
            },
            Self::Banned(..) => ErrorReason::ApiKeyBanned,
            Self::RouteNotFound => ErrorReason::RouteNotFound,
            Self::MethodNotAllowed { .. } => ErrorReason::MethodNotAllowed,
            Self::OperationRemoved => ErrorReason::OperationRemoved,
            Self::UnsupportedMediaType => ErrorReason::UnsupportedMediaType,
            Self::BodyTooLarge => ErrorReason::BodyTooLarge,
            Self::RequestTimeout => ErrorReason::RequestTimeout,
            Self::MalformedJson(_) => ErrorReason::MalformedJson,
            Self::ValidationFailed(_) => ErrorReason::ValidationFailed,
            Self::InvalidParameter(_) => ErrorReason::InvalidParameter,
            Self::InvalidCursor(_) => ErrorReason::InvalidCursor,
            Self::InvalidIdempotencyKey => ErrorReason::InvalidIdempotencyKey,
            Self::IdempotencyInProgress { .. } => ErrorReason::IdempotencyInProgress,
            Self::IdempotencyKeyReused => ErrorReason::IdempotencyKeyReused,
            Self::PetNotFound => ErrorReason::PetNotFound,
            Self::Core { reason, .. } => *reason,
            Self::Unavailable { .. } | Self::ApiKeyNotChecked => ErrorReason::Unavailable,
            Self::Overloaded { .. } | Self::TooManyKeyLookups => ErrorReason::Overloaded,
            Self::LimiterUnavailable(_) => ErrorReason::LimiterUnavailable,
            Self::DeadlineExceeded => ErrorReason::DeadlineExceeded,
            Self::Internal => ErrorReason::Internal,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.reason().code().http
    }

    /// Returns `Retry-After` in whole seconds: at least 1 if the table of codes promises the field, and
    /// otherwise the value from the core.
    fn retry_after_secs(&self) -> Option<u64> {
        let known = match self {
            Self::OverLimit(decision) => decision.retry_after_secs(),
            Self::Banned(decision, _) => decision.retry_after_secs(),
            Self::Core { retry_after, .. }
            | Self::IdempotencyInProgress { retry_after }
            | Self::Unavailable { retry_after }
            | Self::Overloaded { retry_after } => retry_after.map(whole_secs),
            _ => None,
        };
        known.or_else(|| (self.reason().code().retry == Retry::After).then_some(1))
    }

    /// Returns the error that replaces an answer without the Error body that it should have.
    pub(crate) const fn replacing(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::RouteNotFound,
            StatusCode::REQUEST_TIMEOUT => Self::RequestTimeout,
            StatusCode::PAYLOAD_TOO_LARGE => Self::BodyTooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::UnsupportedMediaType,
            _ => Self::Internal,
        }
    }
}

/// Error object, with exactly these members.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    status: u16,
}

/// Returns an answer with an Error body.
pub fn error_response(status: StatusCode, code: &str, message: &str) -> Response {
    // Serialising two strings and a number does not fail.
    let body = serde_json::to_vec(&ErrorBody { code, message, status: status.as_u16() }).unwrap_or_default();
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let reason = self.reason();
        let code = reason.code();
        let mut response = error_response(code.http, code.name, &self.to_string());
        response.extensions_mut().insert(reason); // for the layers that count answers
        let headers = response.headers_mut();
        // The explanation for people (RFC 8288), in a separate field beside other `Link` fields.
        if let Ok(help) = HeaderValue::try_from(format!("<{}>; rel=\"help\"", page_path(reason))) {
            headers.insert(header::LINK, help);
        }
        if let Some(secs) = self.retry_after_secs() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if let Some(challenge) = challenge(reason) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Self::MethodNotAllowed { allow } = self
            && let Ok(allow) = HeaderValue::try_from(allow)
        {
            headers.insert(header::ALLOW, allow);
        }
        response
    }
}

/// Returns the message of a suspension. The reason is the operator's own text.
fn suspension_message(reason: &str) -> String {
    let suffix = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("the account is suspended by the operator{suffix}")
}

/// Returns the path of the page about a code.
pub(crate) fn page_path(reason: ErrorReason) -> String {
    format!("/docs/errors/{}", reason.code().name)
}

/// Returns the value of `WWW-Authenticate` (RFC 6750 §3). It names an error only if a credential was sent.
const fn challenge(reason: ErrorReason) -> Option<&'static str> {
    match reason {
        ErrorReason::MissingApiKey => Some(r#"Bearer realm="petstore""#),
        ErrorReason::InvalidApiKey | ErrorReason::ApiKeyRevoked | ErrorReason::ApiKeyExpired => {
            Some(r#"Bearer realm="petstore", error="invalid_token""#)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
