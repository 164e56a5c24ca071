//! Handlers of `/v1/pets`: the pets (docs/contract.md, 7).

use axum::{extract::Request, response::Response};
use http::{HeaderValue, StatusCode, header};
use petstore_proto::{
    lists,
    v1::{CreatePetRequest, GetPetRequest, ListPetsRequest},
};

use super::{
    creation::{CreationKey, mark_replayed},
    id_in_path,
    paging::{AnsweredPage, Filter, List, PageRequest},
};
use crate::{
    error::ApiError,
    gateway::GatewayState,
    json::{
        json_response,
        pet::{STATUSES, new_pet_of_request, pet_body, pets_body},
    },
    operation::GET_PET_DEPRECATION,
    request_body,
    request_id::Caller,
    unknown_input::UnknownInput,
};

/// Handles `GET /v1/pets`: a page of pets (docs/contract.md, 7.2).
pub(super) async fn list(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
    unknown: &mut UnknownInput,
) -> Result<Response, ApiError> {
    let fetch = |PageRequest { page_size, page_token, filter: status }| async move {
        let request = ListPetsRequest { page_size, page_token, status };
        let page = gateway.core.list_pets(request, caller).await?;
        let body = pets_body(&page.pets);
        Ok(AnsweredPage { body, next_page_token: page.next_page_token, filter: page.status })
    };
    let filter = Some(Filter { name: "status", words: &STATUSES });
    List { number: lists::PETS, filter }.answer(request.uri(), unknown, fetch).await
}

/// Handles `GET /v1/pets/{petId}`: one pet (docs/contract.md, 7.5). Deprecated, see [`GET_PET_DEPRECATION`].
pub(super) async fn get(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
    unknown: &mut UnknownInput,
) -> Result<Response, ApiError> {
    let now = gateway.clock.now();
    if now >= GET_PET_DEPRECATION.removed_at {
        return Err(ApiError::OperationRemoved);
    }
    if let Some(until) = gateway.brownouts.in_force_until(caller.account_id, gateway.keys.core_now()) {
        return Err(ApiError::OperationBrownout { until });
    }
    unknown.add_query(request.uri());
    unknown.refuse()?;
    let pet_id = id_in_path(request.uri().path()).ok_or(ApiError::PetNotFound)?;
    let found = gateway.core.get_pet(GetPetRequest { pet_id }, caller).await?;
    let pet = found.pet.ok_or(ApiError::Internal)?;
    Ok(json_response(StatusCode::OK, pet_body(&pet)))
}

/// Handles `POST /v1/pets`: adds a pet (docs/contract.md, 7.3).
pub(super) async fn create(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
    unknown: &mut UnknownInput,
) -> Result<Response, ApiError> {
    let key = CreationKey::from_headers(request.headers(), caller.account_id, &gateway.clock);
    unknown.add_query(request.uri());
    let body = request_body::read_json(request).await?;
    let pet = new_pet_of_request(&body, unknown);
    unknown.refuse()?;
    let (key, pet) = (key?, pet?);
    let message = CreatePetRequest { pet: Some(pet), request_id: key.as_str().to_owned() };
    let created = gateway.core.create_pet(message, caller).await.map_err(|error| key.explain(error))?;
    let pet = created.pet.ok_or(ApiError::Internal)?;

    let mut response = json_response(StatusCode::CREATED, pet_body(&pet));
    if gateway.clock.now() < GET_PET_DEPRECATION.removed_at
        && let Ok(location) = HeaderValue::try_from(format!("/v1/pets/{}", pet.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // If only this gateway repeated the call, the answer is the first for the client.
    if created.replayed && key.is_from_client() {
        mark_replayed(&mut response);
    }
    Ok(response)
}
