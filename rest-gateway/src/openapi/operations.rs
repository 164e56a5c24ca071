//! The operations and their responses, from the table of operations and the descriptions beside the handlers.

use serde_json::{Map, Value, json};

use super::headers;
use crate::{
    error::{
        codes::code,
        examples::example,
        responses::{ErrorResponse, OF_EVERY_OPERATION, OUTSIDE_OPERATIONS},
    },
    json::reference,
    operation::{
        Description, OPERATIONS, Operation, Success,
        description::{HeaderFields, Link},
    },
    routes,
};

fn described() -> impl Iterator<Item = (&'static Operation, &'static Description)> {
    OPERATIONS.iter().filter_map(|row| Some((row, routes::description(row.id)?)))
}

pub(super) fn paths() -> Value {
    let mut paths = Map::new();
    for (row, description) in described() {
        let path = row.path.strip_prefix("/v1").unwrap_or(row.path);
        paths.entry(path).or_insert_with(|| json!({}))[row.method.to_lowercase()] =
            operation(row, description);
    }
    paths.into()
}

fn operation(row: &Operation, description: &Description) -> Value {
    let Description { tag, summary, text, parameters, request_body, success, failures } = description;
    let mut operation = json!({
        "operationId": row.name,
        "tags": [tag],
        "summary": summary,
        "description": text,
    });
    if let Some(deprecation) = row.deprecation {
        operation["deprecated"] = json!(true);
        operation["x-sunset"] = json!(deprecation.removed_on());
    }
    operation["x-stability"] = json!(row.stability.word());
    if !parameters.is_empty() {
        let parameters = parameters.iter().map(|parameter| reference("parameters", parameter));
        operation["parameters"] = parameters.collect();
    }
    if let Some(request_body) = request_body {
        operation["requestBody"] = request_body();
    }
    let (of_success, of_failures) = headers::of_operation(row);
    let failures = OF_EVERY_OPERATION.iter().chain(*failures);
    // A response with header fields of the operation's own is no component.
    let mut responses: Map<_, _> = failures
        .map(|failure| match of_failures {
            [] => (failure.status(), reference("responses", failure.name)),
            own => (failure.status(), error_response(failure, own)),
        })
        .collect();
    responses.insert(success.status.to_owned(), success_response(success, of_success));
    responses.sort_keys(); // by status, ascending: JSON objects keep their order here
    operation["responses"] = responses.into();
    operation
}

fn success_response(success: &Success, own: HeaderFields) -> Value {
    let mut body = json!({ "schema": reference("schemas", success.schema) });
    if let Some(example) = success.example {
        body["example"] = example();
    }
    let mut response = json!({
        "description": success.description,
        "headers": headers::of_response(&[own, success.headers]),
        "content": { "application/json": body },
    });
    if let Some(Link { name, target }) = &success.link {
        response["links"] = json!({ *name: target() });
    }
    response
}

/// The response with the Error bodies, and header fields of the operation's own.
fn error_response(failure: &ErrorResponse, own: HeaderFields) -> Value {
    let codes: Vec<_> = failure.reasons.iter().map(|&reason| code(reason)).collect();
    let examples =
        failure.reasons.iter().map(|&reason| (code(reason).to_owned(), json!({ "value": example(reason) })));
    json!({
        "description": failure.description,
        "headers": headers::of_response(&[&[("Link", "HelpLink")], failure.headers, own]),
        "content": {
            "application/json": {
                "schema": reference("schemas", "Error"),
                "examples": examples.collect::<Map<_, _>>(),
            },
        },
        "x-error-codes": codes,
    })
}

/// The responses that are referred to, by name.
pub(super) fn components() -> Value {
    let own = described().filter(|(row, _)| headers::of_operation(row).1.is_empty());
    let own = own.flat_map(|(_, description)| description.failures);
    let all = OF_EVERY_OPERATION.iter().chain(own).chain(&OUTSIDE_OPERATIONS);
    all.map(|failure| (failure.name.to_owned(), error_response(failure, &[]))).collect::<Map<_, _>>().into()
}

/// References to the responses that belong to no operation, by status.
pub(super) fn outside_operations() -> Value {
    OUTSIDE_OPERATIONS
        .iter()
        .map(|failure| (failure.status(), reference("responses", failure.name)))
        .collect::<Map<_, _>>()
        .into()
}
