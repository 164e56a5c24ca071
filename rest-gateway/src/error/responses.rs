//! The responses that carry an Error body: which reasons share one, and which header fields it adds.

use petstore_proto::v1::ErrorReason as R;
use serde_json::{Value, json};

use super::{
    codes::{self, explain},
    examples::example,
};

/// A response that carries an Error body.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    /// Its name in the OpenAPI document.
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// Never empty; all have the same HTTP status.
    pub(crate) reasons: &'static [R],
    /// Header fields beyond those of every response, as (field, component).
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

impl ErrorResponse {
    /// The HTTP status, as OpenAPI writes it: a string.
    pub(crate) fn status(&self) -> String {
        self.reasons.first().map_or_else(String::new, |&reason| explain(reason).status.as_str().to_owned())
    }

    const fn with(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }
}

const fn response(name: &'static str, description: &'static str, reasons: &'static [R]) -> ErrorResponse {
    ErrorResponse { name, description, reasons, headers: &[] }
}

const RETRY_AFTER: &[(&str, &str)] = &[("Retry-After", "RetryAfter")];

pub(crate) const INVALID_LIST: ErrorResponse = response(
    "InvalidList",
    "A query parameter is not allowed, or the cursor is damaged or belongs to another list. One message \
     names every fault.",
    &[R::InvalidParameter, R::InvalidCursor, R::InvalidRequest],
);
pub(crate) const INVALID_PET: ErrorResponse = response(
    "InvalidPet",
    "The body is not strict JSON, misses required fields or contains invalid values (one message names \
     every such field), or the Idempotency-Key is not of the right form.",
    &[R::ValidationFailed, R::MalformedJson, R::InvalidIdempotencyKey, R::InvalidRequest],
);
pub(crate) const INVALID_REQUEST: ErrorResponse =
    response("InvalidRequest", "The HTTP request is not acceptable as such.", &[R::InvalidRequest]);
pub(crate) const UNAUTHORIZED: ErrorResponse = response(
    "Unauthorized",
    "The API key is missing or invalid.",
    &[R::MissingApiKey, R::InvalidApiKey, R::ApiKeyRevoked, R::ApiKeyExpired],
)
.with(&[("WWW-Authenticate", "WwwAuthenticate")]);
pub(crate) const FORBIDDEN: ErrorResponse =
    response("Forbidden", "The account that the key belongs to is suspended.", &[R::AccountSuspended]);
pub(crate) const PET_NOT_FOUND: ErrorResponse =
    response("PetNotFound", "The animal could not be found.", &[R::PetNotFound]);
pub(crate) const ROUTE_NOT_FOUND: ErrorResponse = response(
    "RouteNotFound",
    "There is no such path. A trailing slash makes another path.",
    &[R::RouteNotFound],
);
pub(crate) const METHOD_NOT_ALLOWED: ErrorResponse =
    response("MethodNotAllowed", "The path does not serve this method.", &[R::MethodNotAllowed])
        .with(&[("Allow", "Allow")]);
pub(crate) const REQUEST_TIMEOUT: ErrorResponse =
    response("RequestTimeout", "The body did not arrive within 5 seconds.", &[R::RequestTimeout]);
pub(crate) const IDEMPOTENCY_IN_PROGRESS: ErrorResponse = response(
    "IdempotencyInProgress",
    "The first request with this Idempotency-Key is still under way.",
    &[R::IdempotencyInProgress],
)
.with(RETRY_AFTER);
pub(crate) const IDEMPOTENCY_KEY_REUSED: ErrorResponse = response(
    "IdempotencyKeyReused",
    "The Idempotency-Key was used for another animal within the last 24 hours.",
    &[R::IdempotencyKeyReused],
);
pub(crate) const OPERATION_REMOVED: ErrorResponse =
    response("OperationRemoved", "From 5 December 2030: the operation was removed.", &[R::OperationRemoved]);
pub(crate) const BODY_TOO_LARGE: ErrorResponse =
    response("BodyTooLarge", "The body is larger than 64 KiB.", &[R::BodyTooLarge]);
pub(crate) const URI_TOO_LONG: ErrorResponse =
    response("UriTooLong", "The request target is longer than 8 KiB.", &[R::UriTooLong]);
pub(crate) const UNSUPPORTED_MEDIA_TYPE: ErrorResponse = response(
    "UnsupportedMediaType",
    "The body is not application/json (charset utf-8), or is encoded.",
    &[R::UnsupportedMediaType],
);
pub(crate) const TOO_MANY_REQUESTS: ErrorResponse = response(
    "TooManyRequests",
    "The limit per minute or per day is reached, or the key is banned for a while. Wait for Retry-After; \
     then retry with exponential backoff.",
    &[R::RateLimited, R::QuotaExceeded, R::ApiKeyBanned],
)
.with(RETRY_AFTER);
pub(crate) const HEADERS_TOO_LARGE: ErrorResponse = response(
    "HeadersTooLarge",
    "The header fields are larger than 32 KiB, or more than 100.",
    &[R::HeadersTooLarge],
);
pub(crate) const INTERNAL_ERROR: ErrorResponse = response(
    "InternalError",
    "A fault of the service itself. Quote X-Request-Id when you report it.",
    &[R::Internal],
);
pub(crate) const SERVICE_UNAVAILABLE: ErrorResponse = response(
    "ServiceUnavailable",
    "A part of the service is unavailable or overloaded.",
    &[R::Unavailable, R::Overloaded, R::LimiterUnavailable],
)
.with(RETRY_AFTER);
pub(crate) const GATEWAY_TIMEOUT: ErrorResponse = response(
    "GatewayTimeout",
    "The deadline of the request passed. An animal that was being added may have been added.",
    &[R::DeadlineExceeded],
);

/// The responses that any operation may give, in the order of processing.
pub(crate) const OF_EVERY_OPERATION: [&ErrorResponse; 8] = [
    &URI_TOO_LONG,
    &HEADERS_TOO_LARGE,
    &UNAUTHORIZED,
    &FORBIDDEN,
    &TOO_MANY_REQUESTS,
    &INTERNAL_ERROR,
    &SERVICE_UNAVAILABLE,
    &GATEWAY_TIMEOUT,
];

/// The responses that belong to no operation: OpenAPI lists responses by path and method.
pub(crate) const OUTSIDE_OPERATIONS: [&ErrorResponse; 2] = [&ROUTE_NOT_FOUND, &METHOD_NOT_ALLOWED];

/// The schema of the Error body.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Why a request failed.",
        "required": ["code", "message", "status"],
        "properties": {
            "code": {
                "type": "string",
                "pattern": "^[A-Z][A-Z0-9_]*$",
                "description": "For machines. New codes may be added: treat an unknown one by its status. \
                                Which codes come with which response stands there as x-error-codes.",
                "x-extensible-enum": codes::rest_codes().collect::<Vec<_>>(),
            },
            "message": { "type": "string", "description": "For people. May change: do not parse it." },
            "status": {
                "type": "integer",
                "minimum": 400,
                "maximum": 599,
                "description": "The HTTP status code of the response.",
            },
        },
        "additionalProperties": false,
        "example": example(R::PetNotFound),
    })
}
