//! The request body of `POST /v1/pets` (docs/contract.md, 2.2).

use petstore_proto::v1::{NewPet, PetStatus};
use serde_json::value::RawValue;

use super::{
    document::{self, Members, Text},
    pet_status::{STATUS_WORDS, status_from_word},
};
use crate::error::ApiError;

/// Tells the core that there is a status, but not one of ours: it judges values, this judges only their shape.
const UNKNOWN_STATUS: i32 = -1;

const NAME_REQUIRED: &str = "name is required";
const CATEGORY_ID_REQUIRED: &str = "categoryId is required";

/// The pet that a body describes. Members that a `NewPet` does not have are ignored, `id` among them.
pub(crate) fn new_pet(body: &[u8]) -> Result<NewPet, ApiError> {
    let members = document::object(body)
        .map_err(|malformed| ApiError::MalformedJson(malformed.to_string()))?
        .ok_or_else(|| ApiError::ValidationFailed("the body must be a JSON object".to_owned()))?;
    assemble(name(&members), category_id(&members), status(&members))
}

/// The pet in the cells of a table; empty ones are members that are left out.
pub(crate) fn new_pet_from_cells(
    name: Option<&str>,
    category_id: Option<&str>,
    status: Option<&str>,
) -> Result<NewPet, ApiError> {
    let given = |cell: Option<&'_ str>| cell.map(str::to_owned).filter(|cell| !cell.is_empty());
    let category_id = match given(category_id) {
        Some(written) => parse_category_id(&written),
        None => Err(CATEGORY_ID_REQUIRED.to_owned()),
    };
    let status = given(status).map_or(PetStatus::Unspecified.into(), |word| parse_status(&word));
    assemble(given(name).ok_or_else(|| NAME_REQUIRED.to_owned()), category_id, Ok(status))
}

fn assemble(
    name: Result<String, String>,
    category_id: Result<i64, String>,
    status: Result<i32, String>,
) -> Result<NewPet, ApiError> {
    let mut faults = Vec::new();
    let name = name.map_err(|fault| faults.push(fault));
    let category_id = category_id.map_err(|fault| faults.push(fault));
    let status = status.map_err(|fault| faults.push(fault));
    match (name, category_id, status) {
        (Ok(name), Ok(category_id), Ok(status)) => {
            Ok(NewPet { name, category_id: Some(category_id), status })
        }
        _ => Err(ApiError::ValidationFailed(faults.join("; "))),
    }
}

fn name(members: &Members<'_>) -> Result<String, String> {
    let value = members.get("name").ok_or(NAME_REQUIRED)?;
    Ok(string(value).ok_or("name must be a string")?)
}

fn category_id(members: &Members<'_>) -> Result<i64, String> {
    let value = members.get("categoryId").ok_or(CATEGORY_ID_REQUIRED)?;
    // JSON's grammar for numbers and Rust's for i64 meet in exactly the whole numbers without fraction or exponent.
    parse_category_id(value.get())
}

fn parse_category_id(written: &str) -> Result<i64, String> {
    written.parse().map_err(|_| {
        "categoryId must be a whole number from -9223372036854775808 to 9223372036854775807, \
         without fraction or exponent"
            .to_owned()
    })
}

fn status(members: &Members<'_>) -> Result<i32, String> {
    let Some(value) = members.get("status") else {
        return Ok(PetStatus::Unspecified.into());
    };
    let word = string(value).ok_or_else(|| format!("status must be one of {STATUS_WORDS}"))?;
    Ok(parse_status(&word))
}

fn parse_status(word: &str) -> i32 {
    status_from_word(word).map_or(UNKNOWN_STATUS, i32::from)
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok().map(|Text(text)| text.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refusal(body: &str) -> String {
        match new_pet(body.as_bytes()).unwrap_err() {
            ApiError::ValidationFailed(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_pet_is_read() {
        let pet = new_pet(br#"{"status":"sold","id":9,"name":"R\u00e9x","categoryId":-7,"x":{}}"#).unwrap();
        assert_eq!(pet, NewPet { name: "Réx".into(), category_id: Some(-7), status: PetStatus::Sold.into() });
    }

    #[test]
    fn a_status_may_be_left_out_but_not_null() {
        let pet = new_pet(br#"{"name":"Rex","categoryId":1}"#).unwrap();
        assert_eq!(pet.status, i32::from(PetStatus::Unspecified));
        let refused = refusal(r#"{"name":"Rex","categoryId":1,"status":null}"#);
        assert_eq!(refused, "status must be one of available, pending, sold");
    }

    #[test]
    fn an_unknown_status_word_is_left_for_the_core_to_refuse() {
        for word in ["", "Sold", "sold ", "gone"] {
            let body = json!({ "name": "Rex", "categoryId": 1, "status": word }).to_string();
            let status = new_pet(body.as_bytes()).unwrap().status;
            assert!(PetStatus::try_from(status).is_err(), "{word}");
        }
    }

    #[test]
    fn one_message_names_every_member_of_the_wrong_shape_in_their_order() {
        assert_eq!(refusal("{}"), "name is required; categoryId is required");
        let all = refusal(r#"{"status":1,"categoryId":"1","name":[]}"#);
        let at = |member: &str| all.find(member).unwrap();
        assert!(
            at("name must") < at("categoryId must") && at("categoryId must") < at("status must"),
            "{all}"
        );
        assert_eq!(all.matches("; ").count(), 2);
    }

    #[test]
    fn null_and_other_types_are_not_names_or_categories() {
        for value in ["null", "true", "1.5", "{}", "[]"] {
            let refused = refusal(&format!(r#"{{"name":{value},"categoryId":{value}}}"#));
            assert!(
                refused.starts_with("name must be a string; categoryId must be a whole number"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_body_that_is_not_an_object_is_not_a_pet() {
        for body in ["[]", "null", "\"name\"", "1"] {
            assert_eq!(refusal(body), "the body must be a JSON object");
        }
    }

    #[test]
    fn broken_json_is_malformed_whatever_else_is_wrong() {
        for body in [r#"{"name":1,"name":1}"#, r#"{"x":"\ud800"}"#, "{", ""] {
            assert!(matches!(new_pet(body.as_bytes()), Err(ApiError::MalformedJson(_))), "{body}");
        }
    }

    #[test]
    fn a_category_is_a_whole_int64_written_as_such() {
        let with = |number: &str| new_pet(format!(r#"{{"name":"Rex","categoryId":{number}}}"#).as_bytes());
        for number in ["1.0", "1e2", "1E0", "9223372036854775808", "-9223372036854775809", "1e400", "\"1\""] {
            assert!(matches!(with(number), Err(ApiError::ValidationFailed(_))), "{number}");
        }
        for (number, expected) in
            [("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN), ("-0", 0)]
        {
            assert_eq!(with(number).unwrap().category_id, Some(expected));
        }
    }

    #[test]
    fn cells_are_the_members_of_their_names_and_an_empty_one_is_left_out() {
        let pet = new_pet_from_cells(Some(" Rex"), Some("-7"), Some("sold")).unwrap();
        assert_eq!(
            pet,
            NewPet { name: " Rex".into(), category_id: Some(-7), status: PetStatus::Sold.into() }
        );
        let pet = new_pet_from_cells(Some("Rex"), Some("7"), Some("")).unwrap();
        assert_eq!(pet.status, i32::from(PetStatus::Unspecified));
        assert_eq!(new_pet_from_cells(Some("Rex"), Some("7"), Some("Sold")).unwrap().status, UNKNOWN_STATUS);
        let said = |name, category_id| new_pet_from_cells(name, category_id, None).unwrap_err().to_string();
        for empty in [None, Some("")] {
            assert_eq!(said(empty, empty), refusal("{}"));
        }
        assert_eq!(said(Some("Rex"), Some("1.0")), refusal(r#"{"name":"Rex","categoryId":1.0}"#));
    }

    proptest! {
        #[test]
        fn every_int64_and_every_name_is_read_exactly(category_id: i64, name in any::<String>()) {
            let body = json!({ "categoryId": category_id, "name": name }).to_string();
            let pet = new_pet(body.as_bytes()).unwrap();
            prop_assert_eq!(pet, NewPet { name, category_id: Some(category_id), status: 0 });
        }
    }
}
