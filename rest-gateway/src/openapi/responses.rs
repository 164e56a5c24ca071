//! The failures: which reasons share a response, and which header fields it adds.

use petstore_proto::v1::ErrorReason as R;
use serde_json::{Map, Value, json};

use super::{headers, reference};
use crate::error::{
    codes::{code, explain},
    examples::example,
};

/// A response that carries an Error body.
#[derive(Debug)]
pub(super) struct Failure {
    /// Its name, which is the component's where operations share it.
    name: &'static str,
    description: &'static str,
    /// Never empty; all have the same HTTP status.
    reasons: &'static [R],
    /// Header fields beyond those of every response, as (field, component).
    headers: &'static [(&'static str, &'static str)],
}

const RETRY_AFTER: &[(&str, &str)] = &[("Retry-After", "RetryAfter")];

pub(super) const INVALID_LIST: Failure = Failure {
    name: "InvalidList",
    description: "A query parameter is not allowed, or the cursor is damaged or belongs to another list. One message \
                  names every fault.",
    reasons: &[R::InvalidParameter, R::InvalidCursor, R::InvalidRequest],
    headers: &[],
};
pub(super) const INVALID_PET: Failure = Failure {
    name: "InvalidPet",
    description: "The body is not strict JSON, misses required fields or contains invalid values (one message names \
                  every such field), or the Idempotency-Key is not of the right form.",
    reasons: &[R::ValidationFailed, R::MalformedJson, R::InvalidIdempotencyKey, R::InvalidRequest],
    headers: &[],
};
pub(super) const INVALID_REQUEST: Failure = Failure {
    name: "InvalidRequest",
    description: "The HTTP request is not acceptable as such.",
    reasons: &[R::InvalidRequest],
    headers: &[],
};
pub(super) const UNAUTHORIZED: Failure = Failure {
    name: "Unauthorized",
    description: "The API key is missing or invalid.",
    reasons: &[R::MissingApiKey, R::InvalidApiKey, R::ApiKeyRevoked, R::ApiKeyExpired],
    headers: &[("WWW-Authenticate", "WwwAuthenticate")],
};
pub(super) const PET_NOT_FOUND: Failure = Failure {
    name: "PetNotFound",
    description: "The animal could not be found.",
    reasons: &[R::PetNotFound],
    headers: &[],
};
const ROUTE_NOT_FOUND: Failure = Failure {
    name: "RouteNotFound",
    description: "There is no such path. A trailing slash makes another path.",
    reasons: &[R::RouteNotFound],
    headers: &[],
};
const METHOD_NOT_ALLOWED: Failure = Failure {
    name: "MethodNotAllowed",
    description: "The path does not serve this method.",
    reasons: &[R::MethodNotAllowed],
    headers: &[("Allow", "Allow")],
};
pub(super) const REQUEST_TIMEOUT: Failure = Failure {
    name: "RequestTimeout",
    description: "The body did not arrive within 5 seconds.",
    reasons: &[R::RequestTimeout],
    headers: &[],
};
pub(super) const IDEMPOTENCY_IN_PROGRESS: Failure = Failure {
    name: "IdempotencyInProgress",
    description: "The first request with this Idempotency-Key is still under way.",
    reasons: &[R::IdempotencyInProgress],
    headers: RETRY_AFTER,
};
pub(super) const IDEMPOTENCY_KEY_REUSED: Failure = Failure {
    name: "IdempotencyKeyReused",
    description: "The Idempotency-Key was used for another animal within the last 24 hours.",
    reasons: &[R::IdempotencyKeyReused],
    headers: &[],
};
pub(super) const OPERATION_REMOVED: Failure = Failure {
    name: "OperationRemoved",
    description: "From 5 December 2030: the operation was removed.",
    reasons: &[R::OperationRemoved],
    headers: &[],
};
pub(super) const BODY_TOO_LARGE: Failure = Failure {
    name: "BodyTooLarge",
    description: "The body is larger than 64 KiB.",
    reasons: &[R::BodyTooLarge],
    headers: &[],
};
pub(super) const URI_TOO_LONG: Failure = Failure {
    name: "UriTooLong",
    description: "The request target is longer than 8 KiB.",
    reasons: &[R::UriTooLong],
    headers: &[],
};
pub(super) const UNSUPPORTED_MEDIA_TYPE: Failure = Failure {
    name: "UnsupportedMediaType",
    description: "The body is not application/json (charset utf-8), or is encoded.",
    reasons: &[R::UnsupportedMediaType],
    headers: &[],
};
pub(super) const TOO_MANY_REQUESTS: Failure = Failure {
    name: "TooManyRequests",
    description: "The limit per minute or per day is reached, or the key is banned for a while. Wait for Retry-After; \
                  then retry with exponential backoff.",
    reasons: &[R::RateLimited, R::QuotaExceeded, R::ApiKeyBanned],
    headers: RETRY_AFTER,
};
pub(super) const HEADERS_TOO_LARGE: Failure = Failure {
    name: "HeadersTooLarge",
    description: "The header fields are larger than 32 KiB, or more than 100.",
    reasons: &[R::HeadersTooLarge],
    headers: &[],
};
pub(super) const INTERNAL_ERROR: Failure = Failure {
    name: "InternalError",
    description: "A fault of the service itself. Quote X-Request-Id when you report it.",
    reasons: &[R::Internal],
    headers: &[],
};
pub(super) const SERVICE_UNAVAILABLE: Failure = Failure {
    name: "ServiceUnavailable",
    description: "A part of the service is unavailable or overloaded.",
    reasons: &[R::Unavailable, R::Overloaded, R::LimiterUnavailable],
    headers: RETRY_AFTER,
};
pub(super) const GATEWAY_TIMEOUT: Failure = Failure {
    name: "GatewayTimeout",
    description: "The deadline of the request passed. An animal that was being added may have been added.",
    reasons: &[R::DeadlineExceeded],
    headers: &[],
};

/// The responses that any operation may give, in the order of processing.
pub(super) const OF_EVERY_OPERATION: [&Failure; 7] = [
    &URI_TOO_LONG,
    &HEADERS_TOO_LARGE,
    &UNAUTHORIZED,
    &TOO_MANY_REQUESTS,
    &INTERNAL_ERROR,
    &SERVICE_UNAVAILABLE,
    &GATEWAY_TIMEOUT,
];

impl Failure {
    /// The HTTP status, as OpenAPI writes it: a string.
    pub(super) fn status(&self) -> String {
        self.reasons.first().map_or_else(String::new, |&reason| explain(reason).status.as_str().to_owned())
    }

    /// A reference to the component.
    pub(super) fn reference(&self) -> Value {
        reference("responses", self.name)
    }

    /// The response itself, with header fields of the operation's own.
    pub(super) fn response(&self, more_headers: &[(&str, &str)]) -> Value {
        let codes: Vec<_> = self.reasons.iter().map(|&reason| code(reason)).collect();
        let examples: Map<_, _> = self
            .reasons
            .iter()
            .map(|&reason| (code(reason).to_owned(), json!({ "value": example(reason) })))
            .collect();
        json!({
            "description": self.description,
            "headers": headers::of_response(&[&[("Link", "HelpLink")], self.headers, more_headers].concat()),
            "content": {
                "application/json": { "schema": reference("schemas", "Error"), "examples": examples },
            },
            "x-error-codes": codes,
        })
    }
}

/// The responses that belong to no operation: OpenAPI lists responses by path and method.
const OUTSIDE_OPERATIONS: [&Failure; 2] = [&ROUTE_NOT_FOUND, &METHOD_NOT_ALLOWED];

/// Whatever is referred to, by name.
pub(super) fn components() -> Value {
    const OF_ONE_OPERATION: [&Failure; 7] = [
        &INVALID_LIST,
        &INVALID_PET,
        &REQUEST_TIMEOUT,
        &IDEMPOTENCY_IN_PROGRESS,
        &BODY_TOO_LARGE,
        &UNSUPPORTED_MEDIA_TYPE,
        &IDEMPOTENCY_KEY_REUSED,
    ];
    let all = OF_EVERY_OPERATION.into_iter().chain(OF_ONE_OPERATION).chain(OUTSIDE_OPERATIONS);
    all.map(|failure| (failure.name.to_owned(), failure.response(&[]))).collect::<Map<_, _>>().into()
}

/// References to the responses that belong to no operation, by status.
pub(super) fn outside_operations() -> Value {
    OUTSIDE_OPERATIONS
        .into_iter()
        .map(|failure| (failure.status(), failure.reference()))
        .collect::<Map<_, _>>()
        .into()
}
