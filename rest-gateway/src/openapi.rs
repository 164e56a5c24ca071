//! The OpenAPI document of the REST interface, served at `/openapi.json` and printed by `petstore openapi`.
//!
//! `openapi/document.json` is maintained by hand. It describes what is particular to an operation, and has
//! templates for what operations share: this module fills them in by the operation table. Tests compare the
//! document with that table, the error codes and the rules of the values.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::{
    Extension,
    response::{AppendHeaders, IntoResponse},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use petstore_proto::v1::ErrorReason;
use serde_json::{Map, Value, json};

use crate::{
    forwarded_prefix::ForwardedPrefix,
    operation::{OPERATIONS, Operation},
    representation::Representation,
};

/// Returns the document, OpenAPI 3.1. It is made at the first call.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(completed);
    &DOCUMENT
}

/// Returns the document with its templates filled in.
fn completed() -> Value {
    // The document is part of the program, and a test parses it.
    let mut document: Value = serde_json::from_str(include_str!("openapi/document.json")).unwrap_or_default();
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
    let codes: Value = error_examples_of(&document).into_iter().map(|(code, _)| code).collect();
    document["components"]["schemas"]["Error"]["properties"]["code"]["x-extensible-enum"] = codes;
    document
}

/// Adds what the table says of an operation, and what it shares with others. A response that is `shared`
/// stays a reference, unless the operation has header fields of its own.
fn complete_operation(operation: &mut Value, row: &Operation, templates: &Value, shared: &Value) {
    fill(operation, &json!({ "operationId": row.name, "x-stability": row.stability.word() }));
    if let Some(deprecation) = row.deprecation {
        let day = deprecation.removed_at.to_string();
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
        if row.deprecation.is_some() {
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

/// Returns the schemas of bodies by their names, such as `Usage`.
pub fn schemas() -> &'static Value {
    &document()["components"]["schemas"]
}

/// Returns an Error object for each code that REST has, by code.
pub fn error_examples() -> Map<String, Value> {
    error_examples_of(document())
}

fn error_examples_of(value: &Value) -> Map<String, Value> {
    let in_content = &value["content"]["application/json"]["examples"];
    match (value, in_content) {
        (Value::Object(response), Value::Object(of_codes)) if response.contains_key("x-error-codes") => {
            of_codes.iter().map(|(code, example)| (code.clone(), example["value"].clone())).collect()
        }
        (Value::Object(members), _) => members.values().flat_map(error_examples_of).collect(),
        (_, _) => Map::new(),
    }
}

/// Returns a reference to a component, such as `reference("schemas", "Pet")`.
pub fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// Handles `GET /openapi.json`, which needs no key. Caches revalidate it, so that a new release is visible at
/// once and an unchanged document is answered with 304.
pub(crate) async fn get_document(
    prefix: Option<Extension<ForwardedPrefix>>,
    headers: HeaderMap,
) -> impl IntoResponse {
    static UNPREFIXED: LazyLock<Representation> = LazyLock::new(|| below(""));
    static PREFIXED: Mutex<Option<(ForwardedPrefix, Representation)>> = Mutex::new(None); // a proxy has one
    let document = match prefix {
        None => UNPREFIXED.clone(),
        Some(Extension(prefix)) => match &mut *PREFIXED.lock() {
            Some((known, document)) if *known == prefix => document.clone(),
            last => {
                let document = below(&prefix.before(""));
                *last = Some((prefix, document.clone()));
                document
            }
        },
    };
    let revalidated = [(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    (AppendHeaders(revalidated), document.answer(&headers))
}

/// Returns the document of a service that clients reach below this path. Its only URLs are those of the
/// server and of the guide.
fn below(prefix: &str) -> Representation {
    let url = format!("\"url\":\"{prefix}/");
    let document = move || document().to_string().replace("\"url\":\"/", &url);
    Representation::new(StatusCode::OK, "application/json", document)
}
