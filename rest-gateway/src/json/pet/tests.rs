use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns a pet to add with these members alone.
fn new(name: &str, category_id: i64, status: PetStatus) -> NewPet {
    let mut pet = NewPet { name: name.to_owned(), category_id: Some(category_id), ..NewPet::default() };
    pet.set_status(status);
    pet
}

/// Returns a pet with these members alone.
fn pet(id: i64, name: &str, category_id: i64, status: PetStatus) -> Pet {
    let mut pet = Pet { id, name: name.to_owned(), category_id, ..Pet::default() };
    pet.set_status(status);
    pet
}

fn refusal(body: &str) -> String {
    match new_pet(body.as_bytes()).unwrap_err() {
        ApiError::ValidationFailed(faults) => faults.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_status_of_the_contract_has_its_word() {
    let names = (1..).map_while(|number| PetStatus::try_from(number).ok()).map(|it| it.as_str_name());
    let words: Vec<_> = names.map(|name| name.trim_start_matches("PET_STATUS_").to_lowercase()).collect();
    assert_eq!(words, STATUSES);
}

#[test]
fn a_whole_pet_is_read() {
    let pet = new_pet(br#"{"status":"sold","id":9,"name":"R\u00e9x","categoryId":-7,"x":{}}"#).unwrap();
    assert_eq!(pet, new("Réx", -7, PetStatus::Sold));
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
    assert!(at("name must") < at("categoryId must") && at("categoryId must") < at("status must"), "{all}");
    assert_eq!(all.matches("; ").count(), 2);
}

#[test]
fn null_and_other_types_are_not_names_or_categories() {
    for value in ["null", "true", "1.5", "{}", "[]"] {
        let refused = refusal(&format!(r#"{{"name":{value},"categoryId":{value}}}"#));
        assert!(refused.starts_with("name must be a string; categoryId must be a whole number"), "{refused}");
    }
}

#[test]
fn a_body_that_is_not_an_object_is_not_a_pet() {
    for body in ["[]", "null", "\"name\"", "1"] {
        assert_eq!(refusal(body), "the body must be a JSON object");
    }
}

#[test]
fn broken_json_is_malformed_even_with_other_faults() {
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
fn cells_become_members_by_column_name_and_empty_ones_are_left_out() {
    let read = |given: &[&'static str]| {
        let mut cells = [None; MEMBERS.len()];
        cells.iter_mut().zip(given).for_each(|(cell, given)| *cell = Some(*given));
        new_pet_from_cells(cells)
    };
    assert_eq!(read(&[" Rex", "-7", "sold"]), Ok(new(" Rex", -7, PetStatus::Sold)));
    assert_eq!(read(&["Rex", "7", ""]), Ok(new("Rex", 7, PetStatus::Unspecified)));
    assert_eq!(read(&["Rex", "7", "Sold"]).unwrap().status, UNKNOWN_STATUS);
    let said = |given| read(given).unwrap_err().to_string();
    for empty in [&[][..], &["", ""]] {
        assert_eq!(said(empty), refusal("{}"));
    }
    for given in [&["Rex", "1.0"], &["Rex", "+7"], &["Rex", "007"], &["Rex", " 7"]] {
        assert_eq!(said(given), refusal(r#"{"name":"Rex","categoryId":1.0}"#), "{given:?}");
    }
}

proptest! {
    #[test]
    fn every_int64_and_every_name_is_read_exactly(category_id: i64, name in any::<String>()) {
        let body = json!({ "categoryId": category_id, "name": name }).to_string();
        let pet = new_pet(body.as_bytes()).unwrap();
        prop_assert_eq!(pet, new(&name, category_id, PetStatus::Unspecified));
    }
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
    let expected = [
        r#"[{"id":1,"name":"A","categoryId":1,"status":"sold"},"#,
        r#"{"id":2,"name":"B","categoryId":1,"status":"pending"}]"#,
    ];
    assert_eq!(pets_body(&two), expected.concat().as_bytes());
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
