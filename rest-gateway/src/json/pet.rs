//! Pets as JSON (docs/contract.md, 2.1 to 2.3): the request body, the answer, and the cells of a table. A new
//! member is only added here.

use petstore_proto::v1::{NewPet, Pet, PetStatus};
use serde::Serialize;

use super::{Members, array_body, number, object, required, text, whole_number, word, words_rule};
use crate::{
    error::ApiError,
    problem::{Faults, Place},
    unknown_input::UnknownInput,
};

/// Members of a pet that clients set, which are also the columns of a table, after the identifier.
pub const MEMBERS: [&str; 3] = ["name", "categoryId", "status"];

/// Members of these that are required, in bodies and as columns.
pub const REQUIRED: [&str; 2] = ["name", "categoryId"];

/// Status number for an unknown word. It shows the core that a status is present but invalid: the core
/// validates values, and this module only their shape.
const UNKNOWN_STATUS: i32 = -1;

/// Words of `PetStatus`.
pub(crate) const STATUSES: [&str; 3] = ["available", "pending", "sold"];

/// Pet object. Identifiers are JSON numbers, exact over the whole range of int64.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PetBody<'a> {
    id: i64,
    name: &'a str,
    category_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

impl<'a> From<&'a Pet> for PetBody<'a> {
    fn from(pet: &'a Pet) -> Self {
        let status = word(&STATUSES, pet.status);
        Self { id: pet.id, name: &pet.name, category_id: pet.category_id, status }
    }
}

/// Returns one pet as JSON.
pub fn pet_body(pet: &Pet) -> Vec<u8> {
    // Serialising strings and numbers into memory does not fail.
    serde_json::to_vec(&PetBody::from(pet)).unwrap_or_default()
}

/// Returns an array of pets.
pub(crate) fn pets_body(pets: &[Pet]) -> Vec<u8> {
    array_body(pets.iter().map(PetBody::from))
}

/// Returns the cells of a pet in a table: its identifier and then the [`MEMBERS`]. The cell of a missing
/// member is empty.
pub fn pet_cells(pet: &Pet) -> [String; MEMBERS.len() + 1] {
    let PetBody { id, name, category_id, status } = pet.into();
    [id.to_string(), name.to_owned(), category_id.to_string(), status.unwrap_or_default().to_owned()]
}

/// Returns the pet that a body describes. Members that a `NewPet` does not have are ignored, `id` among them.
pub(crate) fn new_pet(body: &[u8]) -> Result<NewPet, ApiError> {
    from_members(&object(body)?)
}

/// Returns the pet that the body of a request describes. Adds members that a `NewPet` does not have to the
/// unknown input.
pub(crate) fn new_pet_of_request(body: &[u8], unknown: &mut UnknownInput) -> Result<NewPet, ApiError> {
    let members = object(body)?;
    for (name, _) in members.0.iter().filter(|(name, _)| !MEMBERS.contains(&&**name)) {
        unknown.add(Place::Body, name);
    }
    from_members(&members)
}

fn from_members(members: &Members<'_>) -> Result<NewPet, ApiError> {
    collect(
        members.optional("name", text),
        members.optional("categoryId", |value| whole_number(value.get())),
        members.optional("status", |value| {
            text(value).map(|word| parse_status(&word)).map_err(|_| words_rule(&STATUSES))
        }),
    )
}

/// Returns the pet in the cells of the [`MEMBERS`]. An empty cell is an omitted member.
pub(crate) fn new_pet_from_cells(cells: [Option<&str>; MEMBERS.len()]) -> Result<NewPet, ApiError> {
    let [name, category_id, status] = cells.map(|cell| cell.filter(|cell| !cell.is_empty()));
    collect(
        Ok(name.map(str::to_owned)),
        category_id.map(whole_number).transpose().map_err(|rule| format!("categoryId {rule}")),
        Ok(status.map(parse_status)),
    )
}

/// Returns a pet of these members, or one error that names every member that is missing or has the wrong
/// type.
fn collect(
    name: Result<Option<String>, String>,
    category_id: Result<Option<i64>, String>,
    status: Result<Option<i32>, String>,
) -> Result<NewPet, ApiError> {
    let mut faults = Vec::new();
    let name = required("name", name).map_err(|fault| faults.push(fault));
    let category_id = required("categoryId", category_id).map_err(|fault| faults.push(fault));
    let status = status.map_err(|fault| faults.push(fault));
    match (name, category_id, status) {
        (Ok(name), Ok(category_id), Ok(status)) => {
            let status = status.unwrap_or(PetStatus::Unspecified.into());
            Ok(NewPet { name, category_id: Some(category_id), status })
        }
        _ => Err(ApiError::ValidationFailed(Faults::new(Place::Body, &faults))),
    }
}

fn parse_status(word: &str) -> i32 {
    number(&STATUSES, word).map_or(UNKNOWN_STATUS, i32::from)
}

#[cfg(test)]
mod tests;
