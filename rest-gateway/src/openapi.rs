//! The OpenAPI document of the REST interface, served at `/openapi.json` and printed by `petstore openapi`.
//!
//! It is the file `docs/openapi.json`. A test makes that of `openapi/document.json`, which is maintained by
//! hand: it describes what is particular to an operation, and has templates for what operations share. Tests
//! compare the document with the operation table, the error codes and the rules of the values.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::{
    Extension,
    response::{AppendHeaders, IntoResponse},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{representation::Representation, request::ForwardedPrefix};

/// Returns the document, OpenAPI 3.1.
pub fn document() -> &'static Value {
    // The document is part of the program, and a test parses it.
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("../../docs/openapi.json")).unwrap_or_default());
    &DOCUMENT
}

/// Returns the schemas of bodies by their names, such as `Usage`.
pub fn schemas() -> &'static Value {
    &document()["components"]["schemas"]
}

/// Returns an Error object for each code in a document, by code.
pub fn error_examples(value: &Value) -> Map<String, Value> {
    let in_content = &value["content"]["application/json"]["examples"];
    match (value, in_content) {
        (Value::Object(response), Value::Object(of_codes)) if response.contains_key("x-error-codes") => {
            of_codes.iter().map(|(code, example)| (code.clone(), example["value"].clone())).collect()
        }
        (Value::Object(members), _) => members.values().flat_map(error_examples).collect(),
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
