//! The OpenAPI document of the REST interface, served at `/openapi.json` and printed by `petstore openapi`.
//!
//! `openapi/document.json` is maintained by hand. Tests compare it with the operation table, the error codes
//! and the rules of the values.

#[cfg(test)]
mod tests;

use axum::{
    response::AppendHeaders,
    routing::{MethodRouter, get},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::{
    operation::{OPERATIONS, Operation, Stability},
    representation::Representation,
};

/// Returns the document, OpenAPI 3.1.
///
/// A response that operations share is a component. If an operation has further header fields, the component
/// is copied into the operation and these are added, which saves a thousand lines.
#[must_use]
pub fn document() -> Value {
    // The document is part of the program, and a test parses it.
    let mut document: Value = serde_json::from_str(include_str!("openapi/document.json")).unwrap_or_default();
    let shared = document["components"]["responses"].take();
    for row in OPERATIONS {
        let own = failure_headers(row);
        let path = row.path.strip_prefix("/v1").unwrap_or(row.path);
        let responses =
            document["paths"].get_mut(path).and_then(|path| path.get_mut(row.method.to_lowercase()));
        let Some(Value::Object(responses)) = responses.and_then(|operation| operation.get_mut("responses"))
        else {
            continue;
        };
        for response in responses.values_mut().filter(|_| !own.is_empty()) {
            let name = response["$ref"].as_str().and_then(|target| target.rsplit('/').next());
            if let Some(mut component) = name.and_then(|name| shared.get(name)).cloned() {
                for &(field, header) in own {
                    component["headers"][field] = reference("headers", header);
                }
                *response = component;
            }
        }
    }
    document["components"]["responses"] = shared;
    document
}

/// Returns the schemas of bodies by their names, such as `Usage`.
#[must_use]
pub fn schemas() -> Value {
    document()["components"]["schemas"].take()
}

/// Returns an Error object for each code that REST has, by code.
pub(crate) fn error_examples() -> Map<String, Value> {
    fn collect(value: &Value, examples: &mut Map<String, Value>) {
        let in_content = &value["content"]["application/json"]["examples"];
        if let (Some(_), Value::Object(of_codes)) = (value.get("x-error-codes"), in_content) {
            examples.extend(of_codes.iter().map(|(code, example)| (code.clone(), example["value"].clone())));
        } else if let Value::Object(members) = value {
            members.values().for_each(|member| collect(member, examples));
        }
    }
    let mut examples = Map::new();
    collect(&document(), &mut examples);
    examples
}

/// Returns a reference to a component, such as `reference("schemas", "Pet")`.
#[must_use]
pub fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// Returns the header fields that failures of an operation have beside those of the component, as (field,
/// component) pairs.
fn failure_headers(row: &Operation) -> &'static [(&'static str, &'static str)] {
    match (row.deprecation, row.stability) {
        (Some(_), _) => {
            &[("Deprecation", "Deprecation"), ("Sunset", "Sunset"), ("Link", "HelpAndSuccessorLink")]
        }
        (None, Stability::Experimental) => &[("X-Stability", "Experimental")],
        (None, Stability::Beta) => &[("X-Stability", "Beta")],
        (None, Stability::Stable) => &[],
    }
}

/// Returns the handler of `GET /openapi.json`, which needs no key. Caches revalidate it, so that a new
/// release is visible at once and an unchanged document is answered with 304.
pub(crate) fn route<S: Clone + Send + Sync + 'static>() -> MethodRouter<S> {
    let document = Representation::new(StatusCode::OK, "application/json", document().to_string());
    let revalidated = [(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    get(async move |headers: HeaderMap| (AppendHeaders(revalidated), document.answer(&headers)))
}
