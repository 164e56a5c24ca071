//! Pets in files that are imported and exported: read and written as in bodies, and refused with the same
//! reasons and words.

use petstore_proto::v1::{NewPet, Pet};

use crate::{
    error::{ApiError, code},
    json::pet::{self, pet_body, pet_cells},
};

/// The columns of a table of pets, after the identifier: the members that a new pet may have.
pub const COLUMNS: [&str; pet::MEMBERS.len()] = pet::MEMBERS;

/// The columns that a table must have.
pub const REQUIRED_COLUMNS: [&str; pet::REQUIRED.len()] = pet::REQUIRED;

/// Why a row of a file is not a pet. The core judges the values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RowError {
    /// A name of `ErrorReason`, without its prefix.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl From<ApiError> for RowError {
    fn from(error: ApiError) -> Self {
        Self { reason: code(error.reason()), message: error.to_string() }
    }
}

/// The pet that a JSON text describes, as the body of `POST /v1/pets` does.
///
/// # Errors
///
/// What that operation answers.
pub fn from_json(text: &[u8]) -> Result<NewPet, RowError> {
    Ok(pet::new_pet(text)?)
}

/// The pet in the cells of the [`COLUMNS`]: a cell that is not there, or empty, is a member that is left out.
///
/// # Errors
///
/// What the same members in JSON are refused with.
pub fn from_cells(cells: [Option<&str>; COLUMNS.len()]) -> Result<NewPet, RowError> {
    Ok(pet::new_pet_from_cells(cells)?)
}

/// The pet as JSON, as it is answered with.
#[must_use]
pub fn to_json(pet: &Pet) -> Vec<u8> {
    pet_body(pet)
}

/// The pet's identifier and the cells of the [`COLUMNS`].
#[must_use]
pub fn to_cells(pet: &Pet) -> [String; COLUMNS.len() + 1] {
    pet_cells(pet)
}
