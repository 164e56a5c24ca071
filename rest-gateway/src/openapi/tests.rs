//! What the document promises about itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document;
use crate::error::{codes, examples};

/// Calls `see` with every value in the tree and the member name that it stands under.
fn walk<'a>(value: &'a Value, member: &str, see: &mut impl FnMut(&str, &'a Value)) {
    see(member, value);
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| walk(value, name, see)),
        Value::Array(items) => items.iter().for_each(|value| walk(value, member, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn references(document: &Value) -> BTreeSet<&str> {
    let mut references = BTreeSet::new();
    walk(document, "", &mut |member, value| {
        if member == "$ref" {
            references.insert(value.as_str().unwrap());
        }
    });
    references
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let references = references(&document);
    assert!(references.len() > 20, "the walk saw only {references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_component_is_used() {
    let document = document();
    let references = references(&document);
    for (kind, components) in document["components"].as_object().unwrap() {
        for name in components.as_object().unwrap().keys().filter(|_| kind != "securitySchemes") {
            let reference = format!("#/components/{kind}/{name}");
            assert!(references.contains(reference.as_str()), "nothing uses {reference}");
        }
    }
}

#[test]
fn operation_ids_are_those_of_the_contract_and_unique() {
    let document = document();
    let mut ids = Vec::new();
    walk(&document["paths"], "", &mut |_, value| {
        if let Some(responses) = value.get("responses") {
            assert!(responses.is_object());
            ids.push(value["operationId"].as_str().unwrap());
        }
    });
    assert_eq!(ids, ["listPets", "createPet", "getPet", "listOrders", "getUsage"]);
}

#[test]
fn every_error_code_stands_in_a_response_and_every_response_names_real_codes() {
    let document = document();
    let mut documented = BTreeSet::new();
    walk(&document, "", &mut |_, value| {
        if let Some(codes) = value.get("x-error-codes") {
            documented.extend(codes.as_array().unwrap().iter().map(|code| code.as_str().unwrap()));
        }
    });
    assert_eq!(documented, codes::rest_codes().collect());
    assert!(documented.contains("API_KEY_BANNED"), "the reason with the highest number is missing");
    assert!(!documented.contains("UNSPECIFIED"));
}

#[test]
fn every_example_is_an_error_with_its_reason() {
    for reason in codes::all() {
        assert_eq!(examples::sample(reason).reason(), reason);
    }
}

#[test]
fn every_code_of_a_failure_has_the_status_of_its_response() {
    let document = document();
    for operation in
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
    {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = response["$ref"]
                .as_str()
                .map_or(response, |reference| document.pointer(&reference[1..]).unwrap());
            let failed = status.as_str() >= "400";
            assert_eq!(
                failed,
                response.get("x-error-codes").is_some(),
                "{status} of {}",
                operation["operationId"]
            );
            if failed {
                for example in
                    response["content"]["application/json"]["examples"].as_object().unwrap().values()
                {
                    assert_eq!(example["value"]["status"].to_string(), *status);
                }
            }
        }
    }
}

#[test]
fn getting_a_pet_is_deprecated_and_its_responses_all_say_until_when() {
    let document = document();
    let operation = &document["paths"]["/pets/{petId}"]["get"];
    assert_eq!((&operation["deprecated"], &operation["x-sunset"]), (&true.into(), &"2030-12-05".into()));
    for (status, response) in operation["responses"].as_object().unwrap() {
        assert!(response["headers"].get("Sunset").is_some(), "{status} does not");
    }
}

#[test]
fn an_operation_that_is_not_stable_says_so_on_every_response() {
    let document = document();
    let operation = &document["paths"]["/store/orders"]["get"];
    assert_eq!(operation["x-stability"], "experimental");
    for (status, response) in operation["responses"].as_object().unwrap() {
        assert!(response["headers"].get("X-Stability").is_some(), "{status} does not");
    }
}

#[test]
fn the_committed_document_is_this_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap();
    let current = format!("{:#}\n", document());
    assert!(
        committed == current,
        "docs/api/openapi.json is not the current document: run `cargo run -- openapi > \
         docs/api/openapi.json` and look at the difference",
    );
}
