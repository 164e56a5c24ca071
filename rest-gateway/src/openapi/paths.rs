//! The operations (specification §4).

use serde_json::{Map, Value, json};

use super::{
    headers, info, reference,
    responses::{self, Failure},
};

pub(super) fn paths() -> Value {
    json!({
        "/pets": { "get": list_pets(), "post": create_pet() },
        "/pets/{petId}": { "get": get_pet() },
    })
}

fn list_pets() -> Value {
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
                "operationId": "listPets",
                "parameters": { "cursor": "$response.header.X-Next-Cursor" },
                "description": "The next page, if there is one.",
            },
        },
    });
    json!({
        "operationId": "listPets",
        "tags": [info::PETS],
        "summary": "List animals",
        "description": "A page of animals in ascending order of their identifier. While more exist, the response \
                        carries X-Next-Cursor and Link rel=\"next\". An animal that was added before the walk over \
                        the pages began is seen exactly once. Unknown parameters are ignored.",
        "x-stability": "stable",
        "parameters": [
            reference("parameters", "Limit"),
            reference("parameters", "Status"),
            reference("parameters", "Cursor"),
        ],
        "responses": with_failures("200", page, &[&responses::INVALID_LIST]),
    })
}

fn create_pet() -> Value {
    let created = json!({
        "description": "The animal, with its identifier. It is stored durably.",
        "headers": headers::of_response(&[("Location", "Location")]),
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
    ];
    json!({
        "operationId": "createPet",
        "tags": [info::PETS],
        "summary": "Add an animal",
        "description": "The body is strict JSON (RFC 8259): duplicate members, trailing data, invalid UTF-8, lone \
                        surrogates and nesting over 64 are refused. It is at most 64 KiB and arrives within 5 seconds.",
        "x-stability": "stable",
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

fn get_pet() -> Value {
    let mut responses = Map::new();
    let pet = json!({
        "description": "The animal.",
        "headers": headers::of_response(&headers::OF_DEPRECATED),
        "content": { "application/json": { "schema": reference("schemas", "Pet") } },
    });
    responses.insert("200".to_owned(), pet);
    let own = [&responses::INVALID_REQUEST, &responses::PET_NOT_FOUND, &responses::OPERATION_REMOVED];
    for failure in responses::OF_EVERY_OPERATION.into_iter().chain(own) {
        responses.insert(failure.status(), failure.response(&headers::OF_DEPRECATED));
    }
    json!({
        "operationId": "getPet",
        "tags": [info::PETS],
        "summary": "Get an animal",
        "description": "Deprecated: removed on 5 December 2030, when it begins to answer 410. List animals with a \
                        status filter instead.",
        "deprecated": true,
        "x-stability": "stable",
        "x-sunset": "2030-12-05",
        "parameters": [reference("parameters", "PetId")],
        "responses": sorted(responses),
    })
}

/// The success, the operation's own failures and those that every operation shares.
fn with_failures(status: &str, success: Value, own: &[&Failure]) -> Value {
    let failures = responses::OF_EVERY_OPERATION.iter().chain(own);
    let mut responses: Map<_, _> = failures.map(|failure| (failure.status(), failure.reference())).collect();
    responses.insert(status.to_owned(), success);
    sorted(responses)
}

/// By status, ascending: JSON objects keep their order here.
fn sorted(mut responses: Map<String, Value>) -> Value {
    responses.sort_keys();
    responses.into()
}
