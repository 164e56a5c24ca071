//! `POST /v1/pets`: adds a pet (docs/contract.md, 7.3).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use petstore_proto::v1::CreatePetRequest;

use super::{
    body,
    idempotency_key::{CreationName, IDEMPOTENCY_REPLAYED},
};
use crate::{
    caller::Caller,
    error::ApiError,
    gateway::GatewayState,
    json::{new_pet, pet_body},
    operation::deprecation,
    routes::json,
};

pub(crate) async fn create(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let name = CreationName::parse(request.headers(), &caller, &gateway.clock);
    let body = body::read_json(request).await?;
    let name = name?;
    let message = CreatePetRequest { pet: Some(new_pet(&body)?), request_id: name.as_str().to_owned() };
    let created = gateway.core.call(message, &caller).await.map_err(|error| name.explain(error))?;
    let pet = created.pet.ok_or(ApiError::Internal)?;

    let mut response = json(StatusCode::CREATED, pet_body(&pet));
    if gateway.clock.now() < deprecation::GET_PET.removed_at
        && let Ok(location) = HeaderValue::try_from(format!("/v1/pets/{}", pet.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // An answer that only this gateway had asked for twice is the client's first.
    if created.replayed && name.is_of_client() {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
