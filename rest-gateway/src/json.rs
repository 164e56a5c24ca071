//! Request and response bodies: JSON on one side, the gRPC messages on the other.
//!
//! This module checks JSON (RFC 8259) and shape: the members and their types. The core judges the values.

mod document;
pub(crate) mod pet;
pub(crate) mod usage;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use crate::error::ApiError;

/// Returns the members of a body that has to be a JSON object, with their values.
pub(crate) fn strict_members(body: &[u8]) -> Result<Vec<(String, Value)>, ApiError> {
    let members = document::object(body)
        .map_err(|malformed| ApiError::MalformedJson(malformed.to_string()))?
        .ok_or_else(|| ApiError::ValidationFailed("the body must be a JSON object".to_owned()))?;
    Ok(members.into_values())
}

/// Returns an answer with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().reserve(16); // most answers have that many fields
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
