//! Pets as JSON (docs/contract.md, 2.1).

use petstore_proto::v1::{Pet, PetStatus};
use serde::Serialize;

use super::pet_status::word_of;

/// Room for a pet with a short name, so that a page is seldom copied while it grows.
const TYPICAL_LEN: usize = 96;

/// The Pet object. Identifiers are JSON numbers, exact over the whole range of int64.
#[derive(Serialize)]
struct PetBody<'a> {
    id: i64,
    name: &'a str,
    #[serde(rename = "categoryId")]
    category_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

impl<'a> From<&'a Pet> for PetBody<'a> {
    fn from(pet: &'a Pet) -> Self {
        Self {
            id: pet.id,
            name: &pet.name,
            category_id: pet.category_id,
            status: PetStatus::try_from(pet.status).ok().and_then(word_of),
        }
    }
}

/// One pet.
pub(crate) fn pet_body(pet: &Pet) -> Vec<u8> {
    let mut body = Vec::with_capacity(TYPICAL_LEN);
    append(&mut body, pet);
    body
}

/// An array of pets.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pet(id: i64, name: &str, category_id: i64, status: PetStatus) -> Pet {
        Pet { id, name: name.to_owned(), category_id, status: status.into() }
    }

    #[test]
    fn a_pet_has_its_members_in_the_order_of_the_contract() {
        let body = pet_body(&pet(1, "Rex", 7, PetStatus::Available));
        assert_eq!(body, br#"{"id":1,"name":"Rex","categoryId":7,"status":"available"}"#);
    }

    #[test]
    fn a_status_that_was_not_given_is_left_out() {
        let body = pet_body(&pet(i64::MAX, "a\"b", i64::MIN, PetStatus::Unspecified));
        let expected = r#"{"id":9223372036854775807,"name":"a\"b","categoryId":-9223372036854775808}"#;
        assert_eq!(body, expected.as_bytes());
    }

    #[test]
    fn pets_are_a_bare_array() {
        assert_eq!(pets_body(&[]), b"[]");
        let two = [pet(1, "A", 1, PetStatus::Sold), pet(2, "B", 1, PetStatus::Pending)];
        let expected = r#"[{"id":1,"name":"A","categoryId":1,"status":"sold"},{"id":2,"name":"B","categoryId":1,"status":"pending"}]"#;
        assert_eq!(pets_body(&two), expected.as_bytes());
    }

    proptest! {
        #[test]
        fn names_and_numbers_arrive_as_they_are(id: i64, category_id: i64, name in any::<String>()) {
            let body = pet_body(&pet(id, &name, category_id, PetStatus::Sold));
            let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(read["id"].as_i64(), Some(id));
            prop_assert_eq!(read["categoryId"].as_i64(), Some(category_id));
            prop_assert_eq!(read["name"].as_str(), Some(name.as_str()));
        }
    }
}
