//! Request and response bodies: JSON on one side, the gRPC messages on the other, and the schema of each.
//!
//! What is judged here is JSON (RFC 8259) and shape: which members there are, and of which type. Which values
//! are good is the core's to say.

mod document;
mod order;
mod pet;
mod schema;
mod usage;

use serde_json::Value;

use crate::error::ApiError;

pub(crate) use order::orders_body;
pub(crate) use pet::pet_status_word;
pub(crate) use pet::{
    MEMBERS, REQUIRED, STATUS_WORDS, new_pet, new_pet_from_cells, pet_body, pet_cells, pets_body,
    status_from_word,
};
pub(crate) use schema::reference;
pub(crate) use usage::usage_body;
pub use usage::{BanBody, LimitStatusBody, WindowBody};

/// The members of a body that has to be a JSON object, with their values.
pub(crate) fn strict_members(body: &[u8]) -> Result<Vec<(String, Value)>, ApiError> {
    let members = document::object(body)
        .map_err(|malformed| ApiError::MalformedJson(malformed.to_string()))?
        .ok_or_else(|| ApiError::ValidationFailed("the body must be a JSON object".to_owned()))?;
    Ok(members.into_values())
}

/// The schemas of all bodies but Error, by name.
pub(crate) fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    [pet::schemas(), order::schemas(), usage::schemas()].into_iter().flatten()
}
