//! Compares answers with the OpenAPI document, so that every black-box test also tests the document.

use std::sync::LazyLock;

use http::Method;
use serde_json::Value;

use crate::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(petstore_gateway::openapi::document);

/// Checks an answer of the REST port: its status, header fields and body must match the document's operation.
///
/// Requests for no operation (OPTIONS, unknown paths and methods) are ignored.
///
/// # Panics
///
/// If the answer differs from the document.
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else { return };
    // The HTTP library's own refusals are bare (docs/contract.md, 3.6).
    if matches!(answer.status(), 400 | 414 | 431) && answer.find("x-request-id").is_none() {
        return;
    }
    // The admin port has no path below /v1.
    if answer.status() == 404 && answer.text().contains("\"ROUTE_NOT_FOUND\"") {
        return;
    }
    let name = format!("{method} {path} answered {}", answer.status());
    let response = resolved(&operation["responses"][answer.status().to_string()]);
    assert!(!response.is_null(), "{name}, which the OpenAPI document does not have: {answer:?}");
    for (field, header) in response["headers"].as_object().into_iter().flatten() {
        let header = resolved(header);
        let value = answer.headers().get(field).map(|value| value.to_str().expect("a field in ASCII"));
        match value {
            Some(value) => {
                let schema = &header["schema"];
                let value = match schema["type"].as_str() {
                    Some("integer") => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
                    _ => Value::from(value),
                };
                check_value(&value, schema, &format!("{name}: {field}"));
            }
            None => assert_ne!(header["required"], true, "{name} without {field}: {answer:?}"),
        }
    }
    if method != Method::HEAD {
        check_value(&answer.json(), &response["content"]["application/json"]["schema"], &name);
    }
}

/// Returns the operation that serves a request. HEAD is served wherever GET is.
fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let method = match method.as_str() {
        "HEAD" | "GET" => "get",
        "POST" => "post",
        _ => return None,
    };
    let path = path.split('?').next()?.strip_prefix("/v1")?;
    let of_path = DOCUMENT["paths"].as_object()?.iter().find(|(pattern, _)| {
        pattern.split('/').count() == path.split('/').count()
            && pattern.split('/').zip(path.split('/')).all(|(pattern, segment)| {
                if pattern.starts_with('{') { !segment.is_empty() } else { pattern == segment }
            })
    });
    of_path?.1.get(method)
}

/// Returns the component that a reference names, or the value itself.
fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(target) => DOCUMENT.pointer(&target[1..]).expect("a reference leads to a component"),
        None => value,
    }
}

/// Checks the parts of JSON Schema that the document uses, except patterns.
fn check_value(value: &Value, schema: &'static Value, place: &str) {
    let schema = resolved(schema);
    let is_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("{place}: the schema has the type {other}, which this check lacks"),
        None => true,
    };
    assert!(is_type, "{place}: {value} is not of the type in {schema}");
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{place}: {value} is none of {values:?}");
    }
    if let Some(constant) = schema.get("const") {
        assert_eq!(value, constant, "{place}");
    }
    let bound = |name: &str| schema[name].as_i64();
    let number = value.as_i64();
    assert!(number.zip(bound("minimum")).is_none_or(|(number, least)| number >= least), "{place}: {value}");
    assert!(number.zip(bound("maximum")).is_none_or(|(number, most)| number <= most), "{place}: {value}");
    let length = value.as_str().and_then(|text| i64::try_from(text.chars().count()).ok());
    assert!(length.zip(bound("minLength")).is_none_or(|(length, least)| length >= least), "{place}: {value}");
    assert!(length.zip(bound("maxLength")).is_none_or(|(length, most)| length <= most), "{place}: {value}");
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(required).is_some(), "{place}: {required} is missing in {value}");
    }
    for (member, value) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(member) {
            Some(schema) => check_value(value, schema, &format!("{place}: {member}")),
            None => panic!("{place}: {member} is not in the document"),
        }
    }
    for item in value.as_array().into_iter().flatten() {
        check_value(item, &schema["items"], place);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    /// Calls `see` with every object of the document that has an example, and the object's schema.
    fn each_example(value: &'static Value, place: &str, see: &mut impl FnMut(&Value, &'static Value, &str)) {
        let members = value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value));
        let items = value.as_array().into_iter().flatten().map(|value| (String::new(), value));
        for (name, inner) in members.chain(items).filter(|(name, _)| !name.starts_with("example")) {
            each_example(inner, &format!("{place}/{name}"), see);
        }
        let schema = value.get("schema").unwrap_or(value);
        let named = value["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"]);
        named.chain(value.get("example")).for_each(|example| see(example, schema, place));
    }

    #[test]
    fn every_example_of_the_document_is_valid() {
        let mut seen = 0;
        each_example(&DOCUMENT, "", &mut |example, schema, place| {
            check_value(example, schema, place);
            seen += 1;
        });
        assert!(seen > 50, "only {seen} examples were found");
    }

    /// Returns an answer with every field that all answers of `listPets` have.
    fn page(status: u16, body: &'static str) -> Answer {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", "59"),
            ("x-ratelimit-reset", "1795201260"),
            ("ratelimit-policy", "\"minute\";q=60;w=60, \"day\";q=1000;w=86400"),
            ("ratelimit", "\"minute\";r=59;t=42, \"day\";r=999;t=30112"),
            ("x-request-id", "019aa2c4-6b1e-7d3a-9f50-2f6f0a3c9b11"),
            ("cache-control", "no-store"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        Answer::new(status, headers, Bytes::from_static(body.as_bytes()))
    }

    fn is_refused(answer: &Answer) -> bool {
        std::panic::catch_unwind(|| check(&Method::GET, "/v1/pets?limit=1", answer)).is_err()
    }

    #[test]
    fn an_answer_that_differs_from_the_document_is_found() {
        assert!(!is_refused(&page(200, r#"[{"id":1,"name":"Rex","categoryId":7,"status":"sold"}]"#)));
        assert!(is_refused(&page(418, "[]")), "another status");
        assert!(is_refused(&page(200, "{}")), "another type");
        assert!(is_refused(&page(200, r#"[{"id":1,"name":"Rex"}]"#)), "a required member is missing");
        assert!(
            is_refused(&page(200, r#"[{"id":1,"name":"Rex","categoryId":7,"age":3}]"#)),
            "an unknown member"
        );
        assert!(
            is_refused(&page(200, r#"[{"id":1,"name":"Rex","categoryId":7,"status":"lost"}]"#)),
            "no status"
        );
        assert!(is_refused(&page(200, r#"[{"id":0,"name":"Rex","categoryId":7}]"#)), "below the minimum");
        let mut incomplete = page(200, "[]");
        incomplete.remove_header("ratelimit");
        assert!(is_refused(&incomplete), "a required field is missing");
    }
}
