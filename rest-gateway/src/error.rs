//! Refusals and failures of the edge. This is the only place that maps an error to a status and an Error body
//! (docs/contract.md, 2.4 and 8).

#[cfg(test)]
pub(crate) mod testing;

use std::{fmt, sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use petstore_clock::{UnixMillis, whole_secs};
use petstore_core_client::{is_transport_failure, named_reason};
use petstore_key_cache::KeyError;
use petstore_proto::{
    Retry, errors,
    v1::{ErrorReason, ErrorReason as R},
};
use petstore_rate_limit::{BanCause, Decision, LimiterUnavailable, Outcome};
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::{FieldViolation, StatusExt};

errors! {
    /// Reason for an Error body in place of the requested answer. `Display` is the body's `message`, which is
    /// safe for a client. Causes are logged where the error is made.
    #[derive(Clone, Debug, PartialEq, thiserror::Error)]
    #[expect(missing_docs, reason = "the text of each error says what it means")]
    pub enum ApiError {
        #[error("the request must name exactly one host, by a name or an address")]
        InvalidHost => R::InvalidRequest,
        #[error("the body does not match what its header fields announce")]
        BrokenBody => R::InvalidRequest,
        #[error("the only supported Transfer-Encoding is chunked")]
        UnsupportedTransferCoding => R::UnsupportedTransferCoding,
        #[error("the request target must be at most 8192 bytes")]
        UriTooLong => R::UriTooLong,
        #[error("the request must have at most 100 header fields, of at most 32768 bytes in total")]
        HeadersTooLarge => R::HeadersTooLarge,

        #[error("an API key is required: send the header Authorization: Bearer <API_KEY>")]
        MissingApiKey => R::MissingApiKey,
        #[error("the API key is not valid")]
        InvalidApiKey => R::InvalidApiKey,
        #[error("the API key was revoked")]
        ApiKeyRevoked => R::ApiKeyRevoked,
        #[error("the API key has expired")]
        ApiKeyExpired => R::ApiKeyExpired,
        #[error("{}", suspension_message(.reason))]
        AccountSuspended { reason: Arc<str> } => R::AccountSuspended,
        #[error("the API key may only read: it is for GET, HEAD and OPTIONS")]
        InsufficientScope => R::InsufficientScope,
        #[error("the API key may not be used from this address")]
        AddressNotAllowed => R::AddressNotAllowed,
        /// The core is unreachable, and the key is not cached, or stale.
        #[error("the API key cannot be checked at the moment")]
        ApiKeyNotChecked => R::Unavailable,
        #[error("too many API keys are being looked up at the moment")]
        TooManyKeyLookups => R::Overloaded,
        /// Refusal by the limiter, whose decision holds the reason and the end, and what it counts.
        #[error("{}", .0.refusal_message(.1).unwrap_or_default())]
        OverLimit(Decision, &'static str),
        /// Ban of the key, with the decision and the cause.
        #[error("{}", .0.ban_message(.1))]
        Banned(Box<Decision>, BanCause) => R::ApiKeyBanned,

        #[error("no such path; the documentation has them all")]
        RouteNotFound => R::RouteNotFound,
        #[error("this path supports only {allow}")]
        MethodNotAllowed { allow: String } => R::MethodNotAllowed,
        #[error("this operation was removed on 5 December 2030; use GET /v1/pets instead")]
        OperationRemoved => R::OperationRemoved,
        #[error(
            "this operation is off until {}, as a rehearsal of its removal on 5 December 2030; use GET \
             /v1/pets instead", .until.ceil_to_sec()
        )]
        OperationBrownout { until: UnixMillis } => R::OperationBrownout,
        #[error("send uncompressed UTF-8 JSON with Content-Type: application/json")]
        UnsupportedMediaType => R::UnsupportedMediaType,
        #[error("send the body uncompressed, without Content-Encoding")]
        UnsupportedContentCoding => R::UnsupportedMediaType,
        #[error("the body must be at most 65536 bytes")]
        BodyTooLarge => R::BodyTooLarge,
        #[error("the body must arrive within 5 seconds")]
        RequestTimeout => R::RequestTimeout,

        #[error("{0}")]
        MalformedJson(String) => R::MalformedJson,
        #[error("{0}")]
        ValidationFailed(Faults) => R::ValidationFailed,
        #[error("{0}")]
        InvalidParameter(Faults) => R::InvalidParameter,
        #[error("{0}")]
        UnknownInput(Faults) => R::UnknownInput,
        #[error("{0}")]
        InvalidCursor(Faults) => R::InvalidCursor,
        #[error("Idempotency-Key must be one field of 1 to 255 visible ASCII characters")]
        InvalidIdempotencyKey => R::InvalidIdempotencyKey,
        #[error("a request with this Idempotency-Key is still in progress")]
        IdempotencyInProgress { retry_after: Option<Duration> } => R::IdempotencyInProgress,
        #[error("this Idempotency-Key was used for another pet")]
        IdempotencyKeyReused => R::IdempotencyKeyReused,
        #[error("there is no pet with this id")]
        PetNotFound => R::PetNotFound,

        /// Refusal by the core, with its own message.
        #[error("{message}")]
        Core { reason: ErrorReason, message: Faults, retry_after: Option<Duration> },
        #[error("the service is not available at the moment")]
        Unavailable { retry_after: Option<Duration> } => R::Unavailable,
        #[error("the service is overloaded; try again later")]
        Overloaded { retry_after: Option<Duration> } => R::Overloaded,
        #[error("requests cannot be counted at the moment")]
        LimiterUnavailable(#[from] LimiterUnavailable) => R::LimiterUnavailable,
        #[error("the service did not answer in time")]
        DeadlineExceeded => R::DeadlineExceeded,
        #[error("the service failed because of an internal error")]
        Internal => R::Internal,
    }

    /// Returns the machine-readable reason.
    pub(crate) fn reason(&self) -> ErrorReason {
        Self::OverLimit(decision, _) => match decision.outcome {
            // `Admitted` is not a refusal, so this error is never made from it.
            Outcome::RateLimited | Outcome::Admitted => R::RateLimited,
            Outcome::QuotaExceeded => R::QuotaExceeded,
        },
        Self::Core { reason, .. } => *reason,
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Missing => Self::MissingApiKey,
            KeyError::Unknown => Self::InvalidApiKey,
            KeyError::Revoked => Self::ApiKeyRevoked,
            KeyError::Expired => Self::ApiKeyExpired,
            KeyError::AccountSuspended(reason) => Self::AccountSuspended { reason },
            KeyError::AddressNotAllowed => Self::AddressNotAllowed,
            KeyError::CoreAway => Self::ApiKeyNotChecked,
            KeyError::Overloaded => Self::TooManyKeyLookups,
        }
    }
}

impl ApiError {
    /// Returns the parameters and fields that are at fault, as far as they are named.
    pub(crate) fn faults(&self) -> &[InputFault] {
        match self {
            Self::ValidationFailed(faults)
            | Self::InvalidParameter(faults)
            | Self::InvalidCursor(faults)
            | Self::UnknownInput(faults)
            | Self::Core { message: faults, .. } => &faults.named,
            _ => &[],
        }
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.reason().code().http
    }

    /// Returns `Retry-After` in whole seconds: at least 1 if the table of codes promises the field, and
    /// otherwise the value from the core.
    fn retry_after_secs(&self) -> Option<u64> {
        let known = match self {
            Self::OverLimit(decision, _) => decision.retry_after_secs(),
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

/// Place of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is a parameter of the query.
    Query,
    /// It is a field of the body's object.
    Body,
}

/// Parameter or field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputFault {
    pub(crate) place: Place,
    pub(crate) name: String,
    /// Rule that it breaks, as text after the name.
    pub(crate) rule: String,
}

impl InputFault {
    pub(crate) fn new(place: Place, name: impl Into<String>, rule: String) -> Self {
        Self { place, name: name.into(), rule }
    }
}

/// Faults of a request's input, with the one message that names them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    message: String,
    named: Vec<InputFault>,
}

impl Faults {
    pub(crate) const fn new(message: String, named: Vec<InputFault>) -> Self {
        Self { message, named }
    }
}

/// Faults whose message has a sentence for each: `name must not be blank; categoryId is required`.
impl From<Vec<InputFault>> for Faults {
    fn from(named: Vec<InputFault>) -> Self {
        let sentences: Vec<_> = named.iter().map(|it| format!("{} {}", it.name, it.rule)).collect();
        Self { message: sentences.join("; "), named }
    }
}

/// Faults that belong to no single parameter or field.
impl From<String> for Faults {
    fn from(message: String) -> Self {
        Self { message, named: Vec::new() }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
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
        let headers = response.headers_mut();
        // The explanation for people (RFC 8288), in a separate field beside other `Link` fields.
        if let Ok(help) = HeaderValue::try_from(format!("<{}>; rel=\"help\"", error_page_path(reason))) {
            headers.insert(header::LINK, help);
        }
        if let Some(secs) = self.retry_after_secs() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if let Some(challenge) = challenge(reason) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        match &self {
            Self::MethodNotAllowed { allow } => {
                if let Ok(allow) = HeaderValue::try_from(allow) {
                    headers.insert(header::ALLOW, allow);
                }
            }
            // What would be accepted (RFC 9110 §15.5.16)
            Self::UnsupportedMediaType => {
                headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            }
            Self::UnsupportedContentCoding => {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self); // for Problem Details, metrics and the log
        response
    }
}

/// Returns the message of a refusal by the core, with the fields or parameters that it names.
fn faults(reason: ErrorReason, status: &Status) -> Faults {
    let place = if reason == R::ValidationFailed { Place::Body } else { Place::Query };
    let violations = status.get_details_bad_request().map(|it| it.field_violations).unwrap_or_default();
    let fault = |it: FieldViolation| InputFault::new(place, it.field, it.description);
    Faults::new(status.message().to_owned(), violations.into_iter().map(fault).collect())
}

/// Returns the message of a suspension. The reason is the operator's own text.
fn suspension_message(reason: &str) -> String {
    let suffix = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("the operator has suspended the account{suffix}")
}

/// Returns the path of the page about a code.
pub fn error_page_path(reason: ErrorReason) -> String {
    reason.code().page().unwrap_or_default() // every reason has one
}

/// Returns the value of `WWW-Authenticate` (RFC 6750 §3). It names an error only if a credential was sent.
const fn challenge(reason: ErrorReason) -> Option<&'static str> {
    match reason {
        ErrorReason::MissingApiKey => Some(r#"Bearer realm="petstore""#),
        ErrorReason::InvalidApiKey | ErrorReason::ApiKeyRevoked | ErrorReason::ApiKeyExpired => {
            Some(r#"Bearer realm="petstore", error="invalid_token""#)
        }
        ErrorReason::InsufficientScope => Some(r#"Bearer realm="petstore", error="insufficient_scope""#),
        _ => None,
    }
}

/// Maps a status by its reason if it names one that the core may give. Otherwise the status is mapped by its
/// code, and its message is not used, because it may come from a proxy between the gateway and the core.
/// Other reasons are decided here, from what only HTTP can express. In particular a 429 is never passed on,
/// because its header fields would not agree with it.
impl From<&Status> for ApiError {
    fn from(status: &Status) -> Self {
        let retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
        match named_reason(status) {
            // A call that is refused for its form is a fault of this gateway, or meant for another core.
            Some(R::Internal | R::InvalidRequest | R::BodyTooLarge | R::UnsupportedMediaType) => {
                Self::Internal
            }
            // The core is older than this gateway, and lacks the method until it is upgraded.
            Some(R::RouteNotFound) => Self::Unavailable { retry_after },
            // Uses the name on this edge: the core calls the key a request id, and REST clients do not.
            Some(ErrorReason::InvalidIdempotencyKey) => Self::InvalidIdempotencyKey,
            Some(ErrorReason::IdempotencyInProgress) => Self::IdempotencyInProgress { retry_after },
            Some(ErrorReason::IdempotencyKeyReused) => Self::IdempotencyKeyReused,
            Some(reason) => Self::Core { reason, message: faults(reason, status), retry_after },
            None => match status.code() {
                Code::InvalidArgument => Self::ValidationFailed("the request is not valid".to_owned().into()),
                Code::NotFound => Self::PetNotFound,
                Code::ResourceExhausted => Self::Overloaded { retry_after },
                Code::DeadlineExceeded => Self::DeadlineExceeded,
                // tonic's client calls its own timeout `CANCELLED`.
                Code::Cancelled if status.message() == "Timeout expired" => Self::DeadlineExceeded,
                // Only this gateway cancels a call, and it then ignores the result. So this status comes from
                // the transport, as when TLS refuses a certificate late. A core that does not trust this
                // gateway is a fault of the operator, not of the client.
                // A core that lacks the method is older than this gateway.
                Code::Unavailable
                | Code::Cancelled
                | Code::Unauthenticated
                | Code::PermissionDenied
                | Code::Unimplemented => Self::Unavailable { retry_after },
                _ if is_transport_failure(status) => Self::Unavailable { retry_after },
                Code::Ok
                | Code::Unknown
                | Code::AlreadyExists
                | Code::FailedPrecondition
                | Code::Aborted
                | Code::OutOfRange
                | Code::Internal
                | Code::DataLoss => Self::Internal,
            },
        }
    }
}

#[cfg(test)]
mod tests;
