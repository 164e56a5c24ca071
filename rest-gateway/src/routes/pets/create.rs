//! `POST /v1/pets`: adds a pet (docs/contract.md, 7.3).

use axum::{extract::Request, response::Response};
use http::{HeaderValue, StatusCode, header};
use petstore_proto::v1::CreatePetRequest;
use serde_json::{Value, json};

use super::idempotency_key::{CreationKey, IDEMPOTENCY_REPLAYED};
use crate::{
    caller::Caller,
    error::{ApiError, responses},
    gateway::GatewayState,
    json::{
        pet::{new_pet, pet_body},
        reference,
    },
    operation::{
        Description, Success, deprecation,
        description::{Link, PETS},
    },
    request_body,
    routes::json_response,
};

/// What the OpenAPI document says of it.
pub(in crate::routes) const DESCRIPTION: Description = Description {
    tag: PETS,
    summary: "Add an animal",
    text: "The body is strict JSON (RFC 8259): duplicate members, trailing data, invalid UTF-8, lone \
           surrogates and nesting over 64 are refused. It is at most 64 KiB and arrives within 5 seconds.",
    parameters: &["IdempotencyKey"],
    request_body: Some(body),
    success: Success {
        status: "201",
        description: "The animal, with its identifier. It is stored durably.",
        headers: &[("Location", "Location"), ("Idempotency-Replayed", "IdempotencyReplayed")],
        schema: "Pet",
        example: None,
        link: Some(Link { name: "createdPet", target: link_to_pet }),
    },
    failures: &[
        &responses::INVALID_PET,
        &responses::REQUEST_TIMEOUT,
        &responses::BODY_TOO_LARGE,
        &responses::UNSUPPORTED_MEDIA_TYPE,
        &responses::IDEMPOTENCY_IN_PROGRESS,
        &responses::IDEMPOTENCY_KEY_REUSED,
    ],
};

fn link_to_pet() -> Value {
    json!({
        "operationId": "getPet",
        "parameters": { "petId": "$response.body#/id" },
        "description": "The animal that was added.",
    })
}

fn body() -> Value {
    json!({
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
    })
}

pub(crate) async fn create(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = CreationKey::from_headers(request.headers(), caller.account_id, &gateway.clock);
    let body = request_body::read_json(request).await?;
    let key = key?;
    let message = CreatePetRequest { pet: Some(new_pet(&body)?), request_id: key.as_str().to_owned() };
    let created = gateway.core.call(message, caller).await.map_err(|error| key.explain(error))?;
    let pet = created.pet.ok_or(ApiError::Internal)?;

    let mut response = json_response(StatusCode::CREATED, pet_body(&pet));
    if gateway.clock.now() < deprecation::GET_PET.removed_at
        && let Ok(location) = HeaderValue::try_from(format!("/v1/pets/{}", pet.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // An answer that only this gateway had asked for twice is the client's first.
    if created.replayed && key.is_from_client() {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
