//! Failures as Problem Details (RFC 9457), for clients that prefer them to the Error body (docs/contract.md,
//! 2.4). They are made from a response with an Error body, so both have the same facts.

use std::fmt;

use axum::{
    body::{Body, to_bytes},
    response::Response,
};
use http::{HeaderMap, HeaderValue, header};
use petstore_proto::v1::ErrorReason;
use serde_json::{Value, json};

use crate::{forwarded_prefix::ForwardedPrefix, representation::weight, request_id::RequestId};

/// Media type of Problem Details.
const PROBLEM: &str = "application/problem+json";

/// Place of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is a parameter of the query.
    Query,
    /// It is a field of the body's object.
    Body,
}

/// Parameter or field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputFault {
    pub(crate) place: Place,
    pub(crate) name: String,
    /// Rule that it breaks, as text after the name.
    pub(crate) rule: String,
}

/// Faults of a request's input, with the one message that names them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    message: String,
    named: Vec<InputFault>,
}

impl Faults {
    /// Creates them from sentences, each of which begins with the name: `name must not be blank`.
    pub(crate) fn new(place: Place, sentences: &[String]) -> Self {
        let named = sentences.iter().filter_map(|sentence| {
            let (name, rule) = sentence.split_once(' ')?;
            Some(InputFault { place, name: name.to_owned(), rule: rule.to_owned() })
        });
        Self { message: sentences.join("; "), named: named.collect() }
    }

    /// Creates them with a message that is not made of sentences.
    pub(crate) const fn with_message(message: String, named: Vec<InputFault>) -> Self {
        Self { message, named }
    }

    pub(crate) fn named(&self) -> &[InputFault] {
        &self.named
    }
}

/// Faults that belong to no single parameter or field.
impl From<String> for Faults {
    fn from(message: String) -> Self {
        Self { message, named: Vec::new() }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns `true` if `Accept` gives Problem Details a higher weight than `application/json`. Clients that
/// give both the same, as generated ones may, get the Error body of version 1.0.0.
pub(crate) fn is_preferred(headers: &HeaderMap) -> bool {
    let [problem, json] = [PROBLEM, "application/json"].map(|media_type| {
        weight(headers, &header::ACCEPT, &[media_type, "application/*", "*/*"]).unwrap_or(0.0)
    });
    problem > json
}

/// Returns a response with an Error body as Problem Details, and any other response unchanged.
pub(crate) async fn from_error(
    response: Response,
    request_id: &RequestId,
    prefix: Option<&ForwardedPrefix>,
) -> Response {
    let Some(code) = response.extensions().get::<ErrorReason>().map(|reason| reason.code()) else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    // The body is in memory, as `ApiError` wrote it: neither step fails.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Ok(error) = serde_json::from_slice::<Value>(&body) else {
        return Response::from_parts(parts, Body::from(body));
    };
    let mut problem = json!({
        "type": code.page().map(|page| prefix.map_or(page.clone(), |prefix| prefix.before(&page))),
        "title": title(code.name),
        "status": parts.status.as_u16(),
        "detail": error["message"],
        "code": code.name,
        "requestId": request_id.as_str(),
    });
    if let Some(faults) = parts.extensions.get::<Faults>().filter(|faults| !faults.named.is_empty()) {
        problem["errors"] = faults.named.iter().map(described).collect();
    }
    parts.headers.remove(header::CONTENT_LENGTH); // of the Error body, if a router has set it
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    Response::from_parts(parts, Body::from(problem.to_string()))
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
        let fault = InputFault { place: Place::Body, name: "a~b%2Fc".to_owned(), rule: "is x".to_owned() };
        assert_eq!(described(&fault), json!({ "detail": "is x", "pointer": "#/a~0b~1c" }));
        assert_eq!(title("PET_NOT_FOUND"), "Pet not found");
    }
}
