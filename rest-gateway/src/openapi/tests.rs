//! Tests of the document's own consistency.

use std::collections::BTreeSet;

use petstore_proto::v1::ErrorReason;
use serde_json::{Map, Value, json};

use super::{document, error_examples, reference};
use crate::{
    OPERATIONS,
    cors::EXPOSE_HEADERS,
    deprecation::{DEPRECATION, GET_PET_REMOVED_AT},
    error::testing,
    operation::{Counts, Operation, Stability},
};

/// Returns the document with its templates filled in.
fn completed() -> Value {
    // The document is part of the program, and a test parses it.
    let mut document: Value = serde_json::from_str(include_str!("document.json")).unwrap();
    let templates = document.as_object_mut().and_then(|members| members.remove("x-templates"));
    let templates = templates.unwrap_or_default();
    let mut shared = document["components"]["responses"].take();
    for response in shared.as_object_mut().into_iter().flat_map(Map::values_mut) {
        complete_response(response, true, &templates);
    }
    for row in OPERATIONS {
        let path = row.path.strip_prefix("/v1").unwrap_or(row.path);
        let operation =
            document["paths"].get_mut(path).and_then(|path| path.get_mut(row.method.to_lowercase()));
        if let Some(operation) = operation {
            complete_operation(operation, row, &templates, &shared);
        }
    }
    document["components"]["responses"] = shared;
    let codes: Value = error_examples(&document).into_iter().map(|(code, _)| code).collect();
    document["components"]["schemas"]["Error"]["properties"]["code"]["x-extensible-enum"] = codes;
    document
}

/// Adds what the table says of an operation, and what it shares with others. A response that is `shared`
/// stays a reference, unless the operation has header fields of its own.
fn complete_operation(operation: &mut Value, row: &Operation, templates: &Value, shared: &Value) {
    fill(operation, &json!({ "operationId": row.name, "x-stability": row.stability.word() }));
    if row.is_deprecated {
        let day = GET_PET_REMOVED_AT.to_string();
        fill(operation, &json!({ "deprecated": true, "x-sunset": day.split('T').next() }));
    }
    let cursor = reference("parameters", "Cursor");
    if operation["parameters"].as_array().is_some_and(|parameters| parameters.contains(&cursor)) {
        let next = json!({ "links": { "nextPage": { "operationId": row.name } } });
        fill(operation, &json!({ "responses": { "200": next } }));
        fill(operation, &templates["list"]);
    }
    if operation.get("requestBody").is_some() {
        fill(operation, &templates["body"]);
    }
    fill(operation, &templates["operation"]);
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    responses.sort_keys();
    for (status, response) in responses {
        let is_failure = status.as_str() >= "400";
        let mut own = templates[row.stability.word()].clone();
        if row.is_deprecated {
            fill(&mut own, if is_failure { &templates["deprecatedFailure"] } else { &Value::Null });
            fill(&mut own, &templates["deprecated"]);
        }
        let name = response["$ref"].as_str().and_then(|target| target.rsplit('/').next());
        match name.map(|name| &shared[name]) {
            Some(_) if own.is_null() => {}
            Some(component) => {
                fill(&mut own, component);
                *response = own;
            }
            None => {
                fill(response, &own);
                complete_response(response, is_failure, templates);
            }
        }
    }
}

/// Adds what every response has, and an example for each error with its message in `x-errors`.
fn complete_response(response: &mut Value, is_failure: bool, templates: &Value) {
    if let Some(Value::Object(errors)) = response.as_object_mut().and_then(|it| it.remove("x-errors")) {
        let mut examples = Map::new();
        for (code, message) in &errors {
            let status = ErrorReason::named(code).map(|reason| reason.code().http.as_u16());
            let error = json!({ "code": code, "message": message, "status": status });
            examples.insert(code.clone(), json!({ "value": error }));
        }
        response["x-error-codes"] = errors.keys().cloned().collect();
        response["content"] = json!({ "application/json": { "examples": examples } });
    }
    if is_failure {
        fill(response, &templates["failure"]);
    }
    fill(response, &templates["response"]);
}

/// Adds the members of a template that a value lacks. A reference stays as it is.
fn fill(value: &mut Value, template: &Value) {
    match (value, template) {
        (Value::Object(members), Value::Object(template)) if !members.contains_key("$ref") => {
            for (name, member) in template {
                fill(members.entry(name).or_insert(Value::Null), member);
            }
        }
        (value @ Value::Null, template) => *value = template.clone(),
        (_, _) => {}
    }
}

/// Compares the file. With `UPDATE_PAGES=1` in the environment this writes it instead.
#[test]
fn the_served_document_is_the_maintained_one_with_its_templates_filled_in() {
    let made = format!("{:#}\n", completed());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(file, &made).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    assert!(written == made, "{file} is not the current one: UPDATE_PAGES=1 writes it");
}

/// Calls `see` with every value in the tree and the name of its member.
fn walk<'a>(value: &'a Value, member: &str, see: &mut impl FnMut(&str, &'a Value)) {
    see(member, value);
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| walk(value, name, see)),
        Value::Array(items) => items.iter().for_each(|value| walk(value, member, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns every code that a client of REST may see.
fn rest_codes() -> BTreeSet<&'static str> {
    let is_grpc_only = |it| matches!(it, ErrorReason::OrderNotFound | ErrorReason::InvalidOrderTransition);
    ErrorReason::all().filter(|it| !is_grpc_only(*it)).map(|it| it.code().name).collect()
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
fn every_reference_resolves() {
    let document = document();
    let references = references(document);
    assert!(references.len() > 20, "the walk saw only {references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_component_is_used() {
    let document = document();
    let references = references(document);
    for (kind, components) in document["components"].as_object().unwrap() {
        for name in components.as_object().unwrap().keys().filter(|_| kind != "securitySchemes") {
            let reference = format!("#/components/{kind}/{name}");
            // Problem Details are sent only to clients that ask for them, and are no type of the responses.
            let is_used = references.contains(reference.as_str()) || name == "Problem";
            assert!(is_used, "nothing uses {reference}");
        }
    }
}

#[test]
fn the_document_has_the_operations_of_the_table_and_no_others() {
    let document = document();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.insert((
                format!("{} /v1{path}", method.to_uppercase()),
                operation["operationId"].to_string(),
                operation["x-stability"].to_string(),
                operation["x-sunset"].to_string(),
                operation["deprecated"].as_bool().unwrap_or_default(),
            ));
        }
    }
    let table = OPERATIONS.iter().filter(|row| row.counts != Counts::Nothing).map(|row| {
        let removed = row.is_deprecated.then(|| GET_PET_REMOVED_AT.to_string());
        let sunset = removed.map(|at| Value::from(at.trim_end_matches("T00:00:00Z"))).unwrap_or_default();
        (
            format!("{} {}", row.method, row.path),
            Value::from(row.name).to_string(),
            Value::from(row.stability.word()).to_string(),
            sunset.to_string(),
            row.is_deprecated,
        )
    });
    assert_eq!(described, table.collect());
}

#[test]
fn header_fields_of_a_deprecated_operation_have_the_values_that_are_sent() {
    let document = document();
    let mut sent = http::HeaderMap::new();
    for (name, value) in DEPRECATION {
        sent.append(name, value);
    }
    for (component, field, value) in [
        ("Deprecation", "deprecation", "/schema/const"),
        ("Sunset", "sunset", "/schema/const"),
        ("SuccessorLink", "link", "/example"), // two fields, whose order a proxy may change
    ] {
        let described = document["components"]["headers"][component].pointer(value).unwrap();
        let values: Vec<_> = sent.get_all(field).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(described.as_str().unwrap(), values.join(", "), "{field}");
    }
}

#[test]
fn every_error_code_is_in_a_response_and_every_response_names_existing_codes() {
    let document = document();
    let mut documented = BTreeSet::new();
    walk(document, "", &mut |_, value| {
        if let Some(codes) = value.get("x-error-codes") {
            documented.extend(codes.as_array().unwrap().iter().map(|code| code.as_str().unwrap()));
        }
    });
    assert_eq!(documented, rest_codes());
    assert!(documented.contains("API_KEY_BANNED"), "the reason with the highest number is missing");
    assert!(!documented.contains("UNSPECIFIED"));
}

/// Calls `see` with the operation, the status and each response of each operation, and with those of requests
/// for no operation.
fn each_response(document: &Value, mut see: impl FnMut(&Value, &str, &Value)) {
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let of_operations = operations.map(|operation| (&operation["operationId"], &operation["responses"]));
    let others = (&Value::Null, &document["x-responses-outside-operations"]);
    for (operation, responses) in of_operations.chain([others]) {
        for (status, response) in responses.as_object().unwrap() {
            let component = response["$ref"].as_str();
            let response = component.map_or(response, |reference| document.pointer(&reference[1..]).unwrap());
            see(operation, status, response);
        }
    }
}

/// So a mock shows an Error of this status, and never one of another.
#[test]
fn every_failure_has_an_example_for_each_of_its_codes_which_is_the_error_that_is_sent() {
    let document = document();
    let mut codes = BTreeSet::new();
    each_response(document, |operation, status, response| {
        let is_failure = status >= "400";
        assert_eq!(is_failure, response.get("x-error-codes").is_some(), "{status} of {operation}");
        if !is_failure {
            return;
        }
        let examples = response["content"]["application/json"]["examples"].as_object().unwrap();
        let listed: Value = examples.keys().cloned().collect();
        assert_eq!(response["x-error-codes"], listed, "{status} of {operation}");
        for (code, example) in examples {
            let (reason, error) = (ErrorReason::named(code).unwrap(), &example["value"]);
            let sample = testing::sample(reason, error["message"].as_str().unwrap());
            assert_eq!((sample.reason(), sample.status().as_str()), (reason, status), "{operation}");
            let sent =
                json!({ "code": code, "message": sample.to_string(), "status": sample.status().as_u16() });
            assert_eq!(*error, sent, "{operation}");
        }
        codes.extend(examples.keys().cloned());
    });
    assert_eq!(codes.iter().map(String::as_str).collect::<BTreeSet<_>>(), rest_codes());
    let error = &document["components"]["schemas"]["Error"];
    assert!(error.get("example").or(error.get("examples")).is_none(), "it would be of one status");
}

/// So no client refuses what the service sends, and every language can compile the pattern: PHP reads it byte
/// by byte, and RE2 has no `\u`.
#[test]
fn bodies_of_responses_have_no_pattern_and_those_of_requests_only_ascii() {
    let document = document();
    let mut patterns = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        walk(schema, "", &mut |member, value| {
            if member == "pattern" {
                patterns.push((name.as_str(), value.as_str().unwrap()));
            }
        });
    }
    let [("NewPet", name)] = patterns[..] else { panic!("{patterns:?}") };
    assert!(!name.contains("\\u") && !name.contains("\\p") && !name.contains("(?"), "{name}");
    let escapes = name.split("\\x").skip(1).map(|after| u8::from_str_radix(&after[..2], 16).unwrap());
    assert!(name.is_ascii() && escapes.max() == Some(0x7F), "{name}");
}

#[test]
fn a_page_of_another_origin_can_read_every_header_field_of_the_document() {
    let document = document();
    let mut fields = BTreeSet::new();
    each_response(document, |_, _, response| {
        fields.extend(response["headers"].as_object().unwrap().keys().map(|name| name.to_lowercase()));
    });
    fields.remove("cache-control"); // which every page may read (Fetch Standard)
    fields.insert("etag".to_owned()); // of the documentation
    assert_eq!(EXPOSE_HEADERS.split(", ").map(str::to_owned).collect::<BTreeSet<_>>(), fields);
}

#[test]
fn every_response_of_an_operation_shows_its_deprecation_and_stability() {
    let document = document();
    for row in OPERATIONS.iter().filter(|row| row.counts != Counts::Nothing) {
        let path = &document["paths"][row.path.strip_prefix("/v1").unwrap()];
        for (status, response) in path[row.method.to_lowercase()]["responses"].as_object().unwrap() {
            let target = response["$ref"].as_str().map_or("", |target| &target[1..]);
            let headers =
                &document.pointer(target).filter(|_| !target.is_empty()).unwrap_or(response)["headers"];
            let shown = (headers.get("Sunset").is_some(), headers.get("X-Stability").is_some());
            let is_unstable = row.stability != Stability::Stable;
            assert_eq!(shown, (row.is_deprecated, is_unstable), "{status} of {}", row.name);
        }
    }
}
