//! Pets in files that are imported and exported. They are read and written as in bodies, and refused with the
//! same reasons and messages.

use petstore_proto::v1::{NewPet, Pet};

use crate::{
    error::ApiError,
    json::pet::{self, pet_body, pet_cells},
};

/// Columns of a table of pets, after the identifier: the members that a new pet may have.
pub const COLUMNS: [&str; pet::MEMBERS.len()] = pet::MEMBERS;

/// Columns that a table must have.
pub const REQUIRED_COLUMNS: [&str; pet::REQUIRED.len()] = pet::REQUIRED;

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

/// Returns the pet as JSON, as in an answer.
#[must_use]
pub fn to_json(pet: &Pet) -> Vec<u8> {
    pet_body(pet)
}

/// Returns the pet's identifier and the cells of the [`COLUMNS`].
#[must_use]
pub fn to_cells(pet: &Pet) -> [String; COLUMNS.len() + 1] {
    pet_cells(pet)
}
