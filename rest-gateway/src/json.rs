//! Request and response bodies: JSON on one side, the gRPC messages on the other.
//!
//! This module checks JSON (RFC 8259) and shape: the members and their types. The core judges the values.

mod document;
pub(crate) mod order;
pub(crate) mod pet;
pub(crate) mod usage;

use serde_json::Value;

use crate::error::ApiError;

/// Returns the members of a body that has to be a JSON object, with their values.
pub(crate) fn strict_members(body: &[u8]) -> Result<Vec<(String, Value)>, ApiError> {
    let members = document::object(body)
        .map_err(|malformed| ApiError::MalformedJson(malformed.to_string()))?
        .ok_or_else(|| ApiError::ValidationFailed("the body must be a JSON object".to_owned()))?;
    Ok(members.into_values())
}
