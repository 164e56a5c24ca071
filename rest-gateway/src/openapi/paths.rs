//! The operations (docs/contract.md, 7).

use serde_json::{Map, Value, json};

use super::{
    headers, info, reference,
    responses::{self, Failure},
};
use crate::operation::{Id, OPERATIONS, Operation};

pub(super) fn paths() -> Value {
    let mut paths = Map::new();
    for row in &OPERATIONS {
        if let (Some(path), Some(described)) = (row.path.strip_prefix("/v1"), describe(row)) {
            paths.entry(path).or_insert_with(|| json!({}))[row.method.to_lowercase()] = described;
        }
    }
    paths.into()
}

/// What the table of operations does not hold.
fn describe(row: &Operation) -> Option<Value> {
    match row.id {
        Id::ListPets => Some(list_pets(row)),
        Id::CreatePet => Some(create_pet(row)),
        Id::GetPet => Some(get_pet(row)),
        Id::ListOrders => Some(list_orders(row)),
        Id::GetUsage => Some(get_usage(row)),
        Id::OpenApi | Id::Docs | Id::Options | Id::Unmatched => None,
    }
}

fn list_pets(row: &Operation) -> Value {
    let page = json!({
        "description": "A page of animals; an empty array when there are none.",
        "headers": headers::of_response(&[("X-Next-Cursor", "NextCursor"), ("Link", "PageLink")]),
        "content": {
            "application/json": {
                "schema": reference("schemas", "Pets"),
                "example": [
                    { "id": 1, "name": "Rex", "categoryId": 7, "status": "available" },
                    { "id": 2, "name": "Mia", "categoryId": 3 },
                ],
            },
        },
        "links": {
            "nextPage": {
                "operationId": row.name,
                "parameters": { "cursor": "$response.header.X-Next-Cursor" },
                "description": "The next page, if there is one.",
            },
        },
    });
    json!({
        "operationId": row.name,
        "tags": [info::PETS],
        "summary": "List animals",
        "description": "A page of animals in ascending order of their identifier. While more exist, the response \
                        carries X-Next-Cursor and Link rel=\"next\". An animal that was added before the walk over \
                        the pages began is seen exactly once. Unknown parameters are ignored.",
        "x-stability": row.stability.word(),
        "parameters": [
            reference("parameters", "Limit"),
            reference("parameters", "Status"),
            reference("parameters", "Cursor"),
        ],
        "responses": with_failures("200", page, &[&responses::INVALID_LIST]),
    })
}

fn list_orders(row: &Operation) -> Value {
    let own_headers =
        [&headers::OF_EXPERIMENTAL[..], &[("X-Next-Cursor", "NextCursor"), ("Link", "PageLink")]].concat();
    let page = json!({
        "description": "A page of orders; an empty array when there are none.",
        "headers": headers::of_response(&own_headers),
        "content": { "application/json": { "schema": reference("schemas", "Orders") } },
        "links": {
            "nextPage": {
                "operationId": row.name,
                "parameters": { "cursor": "$response.header.X-Next-Cursor" },
                "description": "The next page, if there is one.",
            },
        },
    });
    json!({
        "operationId": row.name,
        "tags": [info::ORDERS],
        "summary": "List orders",
        "description": "Experimental: it may change or go away at any time. A page of the store's orders in ascending \
                        order of their identifier; every key sees all of them. Orders are placed by the store's own \
                        systems, and never change the status of an animal.",
        "x-stability": row.stability.word(),
        "parameters": [reference("parameters", "Limit"), reference("parameters", "Cursor")],
        "responses": with_inline_failures(page, &[&responses::INVALID_LIST], &headers::OF_EXPERIMENTAL),
    })
}

fn create_pet(row: &Operation) -> Value {
    let created = json!({
        "description": "The animal, with its identifier. It is stored durably.",
        "headers": headers::of_response(&[
            ("Location", "Location"),
            ("Idempotency-Replayed", "IdempotencyReplayed"),
        ]),
        "content": { "application/json": { "schema": reference("schemas", "Pet") } },
        "links": {
            "createdPet": {
                "operationId": "getPet",
                "parameters": { "petId": "$response.body#/id" },
                "description": "The animal that was added.",
            },
        },
    });
    let own = [
        &responses::INVALID_PET,
        &responses::REQUEST_TIMEOUT,
        &responses::BODY_TOO_LARGE,
        &responses::UNSUPPORTED_MEDIA_TYPE,
        &responses::IDEMPOTENCY_IN_PROGRESS,
        &responses::IDEMPOTENCY_KEY_REUSED,
    ];
    json!({
        "operationId": row.name,
        "tags": [info::PETS],
        "summary": "Add an animal",
        "description": "The body is strict JSON (RFC 8259): duplicate members, trailing data, invalid UTF-8, lone \
                        surrogates and nesting over 64 are refused. It is at most 64 KiB and arrives within 5 seconds.",
        "x-stability": row.stability.word(),
        "parameters": [reference("parameters", "IdempotencyKey")],
        "requestBody": {
            "required": true,
            "content": {
                "application/json": {
                    "schema": reference("schemas", "NewPet"),
                    "examples": {
                        "full": { "value": { "name": "Rex", "categoryId": 7, "status": "available" } },
                        "shortest": { "value": { "name": "Mia", "categoryId": 3 } },
                    },
                },
            },
        },
        "responses": with_failures("201", created, &own),
    })
}

fn get_pet(row: &Operation) -> Value {
    let pet = json!({
        "description": "The animal.",
        "headers": headers::of_response(&headers::OF_DEPRECATED),
        "content": { "application/json": { "schema": reference("schemas", "Pet") } },
    });
    let own = [&responses::INVALID_REQUEST, &responses::PET_NOT_FOUND, &responses::OPERATION_REMOVED];
    json!({
        "operationId": row.name,
        "tags": [info::PETS],
        "summary": "Get an animal",
        "description": "Deprecated: removed on 5 December 2030, when it begins to answer 410. List animals with a \
                        status filter instead.",
        "deprecated": row.deprecation.is_some(),
        "x-stability": row.stability.word(),
        "x-sunset": "2030-12-05",
        "parameters": [reference("parameters", "PetId")],
        "responses": with_inline_failures(pet, &own, &headers::OF_DEPRECATED_FAILURES),
    })
}

fn get_usage(row: &Operation) -> Value {
    let usage = json!({
        "description": "The account's plan, windows, ban and requests by day.",
        "headers": headers::of_response(&headers::OF_BETA),
        "content": { "application/json": { "schema": reference("schemas", "Usage") } },
    });
    json!({
        "operationId": row.name,
        "tags": [info::ACCOUNT],
        "summary": "See what the account has used",
        "description": "Costs no quota, and is answered also when the quota is used up and in a ban. It has a limit of \
                        its own, 60 a minute for each account, which the rate limit fields show only when it refuses; \
                        otherwise they show the account's windows. Requests of the last seconds may be missing.",
        "x-stability": row.stability.word(),
        "responses": with_inline_failures(usage, &[&responses::INVALID_REQUEST], &headers::OF_BETA),
    })
}

/// The success, the operation's own failures and those that every operation shares.
fn with_failures(status: &str, success: Value, own: &[&Failure]) -> Value {
    let failures = responses::OF_EVERY_OPERATION.iter().chain(own);
    let mut responses: Map<_, _> = failures.map(|failure| (failure.status(), failure.reference())).collect();
    responses.insert(status.to_owned(), success);
    sorted(responses)
}

/// As [`with_failures`], with header fields of the operation's own on every response; the success has them
/// already.
fn with_inline_failures(success: Value, own: &[&Failure], more_headers: &[(&str, &str)]) -> Value {
    let failures = responses::OF_EVERY_OPERATION.iter().chain(own);
    let mut responses: Map<_, _> =
        failures.map(|failure| (failure.status(), failure.response(more_headers))).collect();
    responses.insert("200".to_owned(), success);
    sorted(responses)
}

/// By status, ascending: JSON objects keep their order here.
fn sorted(mut responses: Map<String, Value>) -> Value {
    responses.sort_keys();
    responses.into()
}
