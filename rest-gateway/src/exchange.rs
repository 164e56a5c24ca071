//! Pets in files that are imported and exported: read and written as in bodies, and refused with the same reasons
//! and texts.

use petstore_proto::v1::{NewPet, Pet, PetStatus};

use crate::{
    error::{ApiError, code},
    json,
};

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
    Ok(json::new_pet(text)?)
}

/// The pet in the cells of a table: a cell that is not there, or empty, is a member that is left out.
///
/// # Errors
///
/// What the same members in JSON are refused with.
pub fn from_cells(
    name: Option<&str>,
    category_id: Option<&str>,
    status: Option<&str>,
) -> Result<NewPet, RowError> {
    Ok(json::new_pet_from_cells(name, category_id, status)?)
}

/// The pet as JSON, as in the body of a response.
#[must_use]
pub fn to_json(pet: &Pet) -> Vec<u8> {
    json::pet_body(pet)
}

/// The word for a status; none if none was given.
#[must_use]
pub fn status_word(status: PetStatus) -> Option<&'static str> {
    json::word_of(status)
}
