//! Pets in files that are imported and exported. They are read and written as in bodies, and refused with the
//! same reasons and messages.

use petstore_proto::v1::NewPet;

pub use crate::json::pet::{
    MEMBERS as COLUMNS, REQUIRED as REQUIRED_COLUMNS, pet_body as to_json, pet_cells as to_cells,
};
use crate::{error::ApiError, json::pet};

/// Reason why a row of a file is not a pet. Values are judged by the core.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RowError {
    /// Name of an `ErrorReason`, without its prefix.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}

impl From<ApiError> for RowError {
    fn from(error: ApiError) -> Self {
        Self { reason: error.reason().code().name, message: error.to_string() }
    }
}

/// Returns the pet that a JSON text describes, as the body of `POST /v1/pets` does.
///
/// # Errors
///
/// If that operation refuses the body, for the same reason.
pub fn from_json(text: &[u8]) -> Result<NewPet, RowError> {
    Ok(pet::new_pet(text)?)
}

/// Returns the pet in the cells of the [`COLUMNS`]. A missing or empty cell is an omitted member.
///
/// # Errors
///
/// If the same members in JSON are refused, for the same reason.
pub fn from_cells(cells: [Option<&str>; COLUMNS.len()]) -> Result<NewPet, RowError> {
    Ok(pet::new_pet_from_cells(cells)?)
}
