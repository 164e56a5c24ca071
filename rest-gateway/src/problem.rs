//! Failures as Problem Details (RFC 9457), for clients that prefer them to the Error body (docs/contract.md,
//! 2.4). Both are made of the same error, so they have the same facts.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, header};
use petstore_caller::call::RequestId;
use serde_json::{Value, json};

use crate::{
    error::{ApiError, InputFault, Place},
    representation::weight,
    request::ForwardedPrefix,
};

/// Media type of Problem Details.
const PROBLEM: &str = "application/problem+json";

/// Returns `true` if `Accept` gives Problem Details a higher weight than `application/json`. Clients that
/// give both the same, as generated ones may, get the Error body of version 1.0.0.
pub(crate) fn is_preferred(headers: &HeaderMap) -> bool {
    let [problem, json] = [PROBLEM, "application/json"].map(|media_type| {
        weight(headers, &header::ACCEPT, &[media_type, "application/*", "*/*"]).unwrap_or(0.0)
    });
    problem > json
}

/// Writes Problem Details in place of the Error body of a failure.
pub(crate) fn write(response: &mut Response, request_id: &RequestId, prefix: Option<&ForwardedPrefix>) {
    let status = response.status().as_u16();
    let Some(error) = response.extensions().get::<ApiError>() else { return };
    let code = error.reason().code();
    let mut problem = json!({
        "type": code.page().map(|page| prefix.map_or(page.clone(), |prefix| prefix.before(&page))),
        "title": title(code.name),
        "status": status,
        "detail": error.to_string(),
        "code": code.name,
        "requestId": request_id.as_str(),
    });
    if !error.faults().is_empty() {
        problem["errors"] = error.faults().iter().map(described).collect();
    }
    *response.body_mut() = Body::from(problem.to_string());
    response.headers_mut().remove(header::CONTENT_LENGTH); // of the Error body, if a router has set it
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
}

/// Returns an element of `errors`, in the form of the RFC's example. A pointer is a fragment of a URL
/// (RFC 6901 §6).
fn described(InputFault { place, name, rule }: &InputFault) -> Value {
    match place {
        Place::Query => json!({ "detail": rule, "parameter": name }),
        Place::Body => {
            let token = name.replace('~', "~0").replace("%2F", "~1");
            json!({ "detail": rule, "pointer": format!("#/{token}") })
        }
    }
}

/// Returns a code in words: `Pet not found` for `PET_NOT_FOUND`.
fn title(code: &str) -> String {
    let words = code.replace('_', " ").to_ascii_lowercase();
    let (first, rest) = words.split_at(1.min(words.len())); // a code is ASCII
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_details_are_preferred_only_above_json() {
        let preferred = |fields: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::ACCEPT, HeaderValue::from_static(field));
            }
            is_preferred(&headers)
        };
        for fields in [
            &["application/problem+json"][..],
            &["Application/Problem+JSON; q=0.5, */*;q=0.4"],
            &["application/json;q=0.4, application/*;q=0.5"],
            &["*/*", "application/json;q=0.9"],
            &["application/json;q=0, */*;q=0.1"],
            &["application/problem+json;q=0.5, application/*;q=0.1, */*"],
            &["application/json;q=0.9, application/problem+json"],
            &["text/html", "application/problem+json;q=0.2"],
        ] {
            assert!(preferred(fields), "{fields:?}");
        }
        for fields in [
            &[][..],
            &["*/*"],
            &["application/*"],
            &["application/problem+json;q=0.5, */*"],
            &["application/problem+json;q=0.5, application/*"],
            &["application/problem+json;q=0.5, application/*;q=0.6, */*;q=0.1"],
            &["application/problem+json;q=2"],
            &["application/json"],
            &["application/problem+json, application/json"],
            &["application/problem+json;q=0.5, application/json;q=0.6"],
            &["application/problem+json;q=0"],
            &["application/problem+json;q=x"],
            &["application/problem+jsonp"],
        ] {
            assert!(!preferred(fields), "{fields:?}");
        }
    }

    #[test]
    fn a_pointer_is_a_fragment_and_a_title_has_words() {
        let fault = InputFault::new(Place::Body, "a~b%2Fc", "is x".to_owned());
        assert_eq!(described(&fault), json!({ "detail": "is x", "pointer": "#/a~0b~1c" }));
        assert_eq!(title("PET_NOT_FOUND"), "Pet not found");
    }
}
