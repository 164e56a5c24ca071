//! `POST /v1/pets`: adds an animal (specification §4.2).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use petstore_proto::v1::CreatePetRequest;

use super::body;
use crate::{
    core_client, deprecation,
    error::ApiError,
    gateway::GatewayState,
    json::{new_pet, pet_body},
    middleware::Caller,
    routes::json,
};

pub(crate) async fn create(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body::read_json(request).await?;
    let request = core_client::request(CreatePetRequest { pet: Some(new_pet(&body)?) }, &caller);
    let created = core_client::answer(gateway.pets.clone().create_pet(request), &caller).await?;
    let pet = created.pet.ok_or(ApiError::Internal)?;

    let mut response = json(StatusCode::CREATED, pet_body(&pet));
    if gateway.clock.now() < deprecation::REMOVED_AT
        && let Ok(location) = HeaderValue::try_from(format!("/v1/pets/{}", pet.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}
