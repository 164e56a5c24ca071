//! The response headers. Whatever [`ON_EVERY_RESPONSE`] names is on every response under `/v1`.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::{
    json::reference,
    operation::{Operation, Stability, deprecation::GET_PET, description::HeaderFields},
};

/// Header fields of every response under `/v1`, whatever its status, as (field, component).
const ON_EVERY_RESPONSE: [(&str, &str); 7] = [
    ("X-RateLimit-Limit", "RateLimitLimit"),
    ("X-RateLimit-Remaining", "RateLimitRemaining"),
    ("X-RateLimit-Reset", "RateLimitReset"),
    ("RateLimit-Policy", "RateLimitPolicy"),
    ("RateLimit", "RateLimit"),
    ("X-Request-Id", "RequestId"),
    ("Cache-Control", "CacheControl"),
];

/// Header fields of every response of the operation, for its success and for its failures.
pub(super) fn of_operation(row: &Operation) -> (HeaderFields, HeaderFields) {
    match (row.deprecation, row.stability) {
        (Some(_), _) => (
            &[("Deprecation", "Deprecation"), ("Sunset", "Sunset"), ("Link", "SuccessorLink")],
            &[("Deprecation", "Deprecation"), ("Sunset", "Sunset"), ("Link", "HelpAndSuccessorLink")],
        ),
        (None, Stability::Experimental) => {
            (&[("X-Stability", "Experimental")], &[("X-Stability", "Experimental")])
        }
        (None, Stability::Beta) => (&[("X-Stability", "Beta")], &[("X-Stability", "Beta")]),
        (None, Stability::Stable) => (&[], &[]),
    }
}

/// The `headers` member of a response: those of every response, and these. Of two for one field, the last
/// counts.
pub(super) fn of_response(own: &[HeaderFields]) -> Value {
    ON_EVERY_RESPONSE
        .iter()
        .chain(own.iter().copied().flatten())
        .map(|&(field, component)| (field.to_owned(), reference("headers", component)))
        .collect::<Map<_, _>>()
        .into()
}

pub(super) fn headers() -> Value {
    let mut headers = Map::new();
    for group in [rate_limit(), general(), paging(), deprecation(), stability()] {
        if let Value::Object(group) = group {
            headers.extend(group);
        }
    }
    headers.into()
}

fn rate_limit() -> Value {
    json!({
        "RateLimitLimit": {
            "required": true,
            "description": "Requests allowed in the window that is nearest to its end of requests (minute or \
                            day); on a 429 the window that refused.",
            "schema": { "type": "integer", "format": "int64", "minimum": 1 },
            "example": 60,
        },
        "RateLimitRemaining": {
            "required": true,
            "description": "Requests left in that window.",
            "schema": { "type": "integer", "format": "int64", "minimum": 0 },
            "example": 59,
        },
        "RateLimitReset": {
            "required": true,
            "description": "Unix timestamp in seconds at which that window ends, rounded up.",
            "schema": { "type": "integer", "format": "int64", "minimum": 1 },
            "example": 1_795_201_260,
        },
        "RateLimitPolicy": {
            "required": true,
            "description": "Both windows: requests (q) per so many seconds (w). IETF draft \
                            ratelimit-headers.",
            "schema": { "type": "string", "pattern": "^\"minute\";q=[0-9]+;w=60, \"day\";q=[0-9]+;w=86400$" },
            "example": "\"minute\";q=60;w=60, \"day\";q=1000;w=86400",
        },
        "RateLimit": {
            "required": true,
            "description": "Both windows: requests left (r) and seconds until the window ends (t).",
            "schema": {
                "type": "string",
                "pattern": "^\"minute\";r=[0-9]+;t=[0-9]+, \"day\";r=[0-9]+;t=[0-9]+$",
            },
            "example": "\"minute\";r=59;t=42, \"day\";r=999;t=30112",
        },
        "RetryAfter": {
            "required": true,
            "description": "Whole seconds to wait before the next attempt.",
            "schema": { "type": "integer", "format": "int64", "minimum": 1 },
            "example": 42,
        },
    })
}

fn general() -> Value {
    json!({
        "RequestId": {
            "required": true,
            "description": "Names the request in the service's logs: the client's own X-Request-Id if it \
                            matches the pattern and no API key begins in it, else a new UUIDv7.",
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9._-]{8,64}$" },
            "example": "019aa2c4-6b1e-7d3a-9f50-2f6f0a3c9b11",
        },
        "CacheControl": {
            "required": true,
            "description": "Answers belong to one account and one moment.",
            "schema": { "type": "string", "const": "no-store" },
        },
        "WwwAuthenticate": {
            "required": true,
            "description": "Bearer realm=\"petstore\", with error=\"invalid_token\" when a credential was \
                            refused (RFC 6750).",
            "schema": { "type": "string", "pattern": "^Bearer realm=\"petstore\"" },
            "example": "Bearer realm=\"petstore\"",
        },
        "HelpLink": {
            "required": true,
            "description": "rel=\"help\": the page about the error's code (RFC 8288).",
            "schema": { "type": "string", "pattern": "^</docs/errors/[A-Z_]+>; rel=\"help\"$" },
            "example": "</docs/errors/RATE_LIMITED>; rel=\"help\"",
        },
        "Allow": {
            "required": true,
            "description": "The methods that the path serves.",
            "schema": { "type": "string" },
            "example": "GET, HEAD, OPTIONS",
        },
        "IdempotencyReplayed": {
            "description": "true: the animal was added by an earlier request with the same Idempotency-Key.",
            "schema": { "type": "string", "const": "true" },
        },
        "Location": {
            "description": "The animal's own path, until GET of it is removed on 5 December 2030.",
            "schema": { "type": "string", "pattern": "^/v1/pets/[1-9][0-9]*$" },
            "example": "/v1/pets/1",
        },
    })
}

fn paging() -> Value {
    json!({
        "NextCursor": {
            "description": "The cursor of the next page; only while there is one.",
            "schema": { "type": "string", "minLength": 1 },
        },
        "PageLink": {
            "description": "rel=\"next\" while there is a next page, rel=\"first\" on every page but the \
                            first (RFC 8288).",
            "schema": { "type": "string" },
        },
    })
}

fn deprecation() -> Value {
    let mut written = HeaderMap::new();
    GET_PET.write(&mut written);
    let value = |name: &str| written.get(name).and_then(|value| value.to_str().ok());
    json!({
        "Deprecation": {
            "required": true,
            "description": "Since when the operation is deprecated (RFC 9745).",
            "schema": { "type": "string", "const": value("deprecation") },
        },
        "Sunset": {
            "required": true,
            "description": "From when the operation answers 410 (RFC 8594).",
            "schema": { "type": "string", "const": value("sunset") },
        },
        "SuccessorLink": {
            "required": true,
            "description": "What replaces the operation.",
            "schema": { "type": "string", "const": value("link") },
        },
        "HelpAndSuccessorLink": {
            "required": true,
            "description": "Two fields: rel=\"help\" is the page about the error's code, \
                            rel=\"successor-version\" what replaces the operation (RFC 8288).",
            "schema": { "type": "string" },
            "example":
                format!("</docs/errors/PET_NOT_FOUND>; rel=\"help\", {}", value("link").unwrap_or_default()),
        },
    })
}

fn stability() -> Value {
    json!({
        "Experimental": {
            "required": true,
            "description": "The operation may change or go away at any time.",
            "schema": { "type": "string", "const": Stability::Experimental.word() },
        },
        "Beta": {
            "required": true,
            "description": "The operation is meant to stay, but may still change in ways that are no \
                            addition.",
            "schema": { "type": "string", "const": Stability::Beta.word() },
        },
    })
}
