//! Pets as JSON (docs/contract.md, 2.1 to 2.3): the request body, the answer, and the cells of a table. A new
//! member is only added here.

use petstore_proto::v1::{NewPet, Pet, PetStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Members, Text};
use crate::error::ApiError;

/// Members of a pet that clients set, which are also the columns of a table.
pub(crate) const MEMBERS: [&str; 3] = ["name", "categoryId", "status"];

/// Members of these that are required.
pub(crate) const REQUIRED: [&str; 2] = ["name", "categoryId"];

/// Typical length of a pet with a short name, in bytes, so that a page is seldom copied while it grows.
const TYPICAL_LEN: usize = 96;

/// Status number for an unknown word. It shows the core that a status is present but invalid: the core
/// validates values, and this module only their shape.
const UNKNOWN_STATUS: i32 = -1;

/// Every status word, for messages.
pub(crate) const STATUS_WORDS: &str = "available, pending, sold";

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
        let status = PetStatus::try_from(pet.status).ok().and_then(pet_status_word);
        Self { id: pet.id, name: &pet.name, category_id: pet.category_id, status }
    }
}

/// Returns one pet.
pub(crate) fn pet_body(pet: &Pet) -> Vec<u8> {
    let mut body = Vec::with_capacity(TYPICAL_LEN);
    append(&mut body, pet);
    body
}

/// Returns an array of pets.
pub(crate) fn pets_body(pets: &[Pet]) -> Vec<u8> {
    let mut body = Vec::with_capacity(pets.len().saturating_mul(TYPICAL_LEN));
    body.push(b'[');
    for (index, pet) in pets.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        append(&mut body, pet);
    }
    body.push(b']');
    body
}

fn append(body: &mut Vec<u8>, pet: &Pet) {
    // Serialising strings and numbers into memory does not fail.
    let _ = serde_json::to_writer(body, &PetBody::from(pet));
}

/// Returns the cells of a pet in a table: its identifier and then the [`MEMBERS`]. The cell of a missing
/// member is empty.
pub(crate) fn pet_cells(pet: &Pet) -> [String; MEMBERS.len() + 1] {
    let PetBody { id, name, category_id, status } = pet.into();
    [id.to_string(), name.to_owned(), category_id.to_string(), status.unwrap_or_default().to_owned()]
}

/// Returns the pet that a body describes. Members that a `NewPet` does not have are ignored, `id` among them.
pub(crate) fn new_pet(body: &[u8]) -> Result<NewPet, ApiError> {
    let members = super::object(body)?;
    let status = member(&members, "status", |value| text(value).map(|word| parse_status(&word)));
    collect(
        member(&members, "name", text),
        member(&members, "categoryId", |value| value.get().parse().ok()), // as `whole_number`
        status,
    )
}

/// Returns the pet in the cells of the [`MEMBERS`]. An empty cell is an omitted member.
pub(crate) fn new_pet_from_cells(cells: [Option<&str>; MEMBERS.len()]) -> Result<NewPet, ApiError> {
    let [name, category_id, status] = cells.map(|cell| cell.filter(|cell| !cell.is_empty()));
    collect(
        Ok(name.map(str::to_owned)),
        category_id.map(|written| whole_number(written).ok_or_else(|| rule("categoryId"))).transpose(),
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
        _ => Err(ApiError::ValidationFailed(faults.join("; "))),
    }
}

fn required<T>(name: &str, value: Result<Option<T>, String>) -> Result<T, String> {
    value?.ok_or_else(|| format!("{name} is required"))
}

/// Returns the member as `parse` reads it, or `None` if it is omitted.
fn member<T>(
    members: &Members<'_>,
    name: &str,
    parse: impl FnOnce(&RawValue) -> Option<T>,
) -> Result<Option<T>, String> {
    members.get(name).map(|value| parse(value).ok_or_else(|| rule(name))).transpose()
}

/// Returns the message about a member of the wrong type.
fn rule(member: &str) -> String {
    match member {
        "name" => "name must be a string".to_owned(),
        "categoryId" => format!(
            "categoryId must be a whole number from {} to {}, without fraction or exponent",
            i64::MIN,
            i64::MAX
        ),
        _ => format!("status must be one of {STATUS_WORDS}"),
    }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok().map(|Text(text)| text.into_owned())
}

/// Parses a whole number without fraction, exponent, plus sign and leading zeros. These are the numbers that
/// both JSON's grammar and Rust's for `i64` allow.
fn whole_number(cell: &str) -> Option<i64> {
    serde_json::from_str::<&RawValue>(cell).ok()?;
    cell.parse().ok()
}

fn parse_status(word: &str) -> i32 {
    status_from_word(word).map_or(UNKNOWN_STATUS, i32::from)
}

/// Returns the status for exactly this word, or `None`.
pub(crate) fn status_from_word(word: &str) -> Option<PetStatus> {
    [PetStatus::Available, PetStatus::Pending, PetStatus::Sold]
        .into_iter()
        .find(|status| pet_status_word(*status) == Some(word))
}

/// Returns the word for a status, or `None` for an unspecified status, which is omitted.
pub(crate) const fn pet_status_word(status: PetStatus) -> Option<&'static str> {
    match status {
        PetStatus::Unspecified => None,
        PetStatus::Available => Some("available"),
        PetStatus::Pending => Some("pending"),
        PetStatus::Sold => Some("sold"),
    }
}

#[cfg(test)]
mod tests;
