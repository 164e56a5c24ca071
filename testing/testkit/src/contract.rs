//! Compares answers with the OpenAPI document, so that every black-box test also tests the document.

use http::Method;
use petstore_admin_check::openapi::Described;
use serde_json::json;

use crate::Answer;

fn described() -> Described<'static> {
    Described { document: petstore_gateway::openapi::document(), is_complete: true }
}

/// Checks an answer of the REST port: its status, header fields and body must match the document's operation.
///
/// Requests for no operation (OPTIONS, unknown paths and methods) are ignored.
///
/// # Panics
///
/// If the answer differs from the document.
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    // The HTTP library's own refusals are bare (docs/contract.md, 3.6).
    if matches!(answer.status(), 400 | 414 | 431) && answer.find("x-request-id").is_none() {
        return;
    }
    // The admin port has no path below /v1.
    if answer.status() == 404 && answer.text().contains("\"ROUTE_NOT_FOUND\"") {
        return;
    }
    // On request a failure has the facts of its Error in another form (docs/contract.md, 2.4).
    let mut body = answer.body().to_vec();
    if answer.find("content-type") == Some("application/problem+json") && !body.is_empty() {
        let problem = answer.json();
        let [code, message, status] = ["code", "detail", "status"].map(|fact| &problem[fact]);
        body = json!({ "code": code, "message": message, "status": status }).to_string().into_bytes();
    }
    let checked = described().check((method, path), (answer.status(), answer.headers(), &body));
    checked.unwrap_or_else(|fault| panic!("{method} {path}: {fault}: {answer:?}"));
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use serde_json::Value;

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
        each_example(petstore_gateway::openapi::document(), "", &mut |example, schema, place| {
            described().value(example, schema, place).unwrap();
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
