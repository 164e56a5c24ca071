//! Handlers of `/v1/pets`: the pets (docs/contract.md, 7).

use axum::{extract::Request, response::Response};
use http::{HeaderValue, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;
use petstore_api_key::List;
use petstore_proto::v1::{CreatePetRequest, GetPetRequest, ListPetsRequest, PetStatus};

use super::{
    creation_key::{CreationKey, IDEMPOTENCY_REPLAYED},
    paging::{self, AnsweredPage, PageRequest, Query},
};
use crate::{
    error::ApiError,
    gateway::GatewayState,
    json::{
        json_response,
        pet::{new_pet, pet_body, pets_body},
    },
    operation::GET_PET_DEPRECATION,
    request_body,
    request_id::Caller,
};

/// Handles `GET /v1/pets`: a page of pets (docs/contract.md, 7.2).
pub(super) async fn list(gateway: &GatewayState, caller: &Caller, uri: &Uri) -> Result<Response, ApiError> {
    let query = Query::parse(uri.query().unwrap_or_default());
    let fetch = |PageRequest { page_size, page_token, status }| async move {
        let request = ListPetsRequest { page_size, page_token, status: status.into() };
        let page = gateway.core.call(request, caller).await?;
        let (body, status) = (pets_body(&page.pets), PetStatus::try_from(page.status).ok());
        Ok(AnsweredPage { body, next_page_token: page.next_page_token, status })
    };
    paging::list("/v1/pets", |status| List::Pets(status as u8), query, fetch).await
}

/// Handles `GET /v1/pets/{petId}`: one pet (docs/contract.md, 7.5). Deprecated, see [`GET_PET_DEPRECATION`].
pub(super) async fn get(gateway: &GatewayState, caller: &Caller, uri: &Uri) -> Result<Response, ApiError> {
    if gateway.clock.now() >= GET_PET_DEPRECATION.removed_at {
        return Err(ApiError::OperationRemoved);
    }
    let pet_id = id_in_path(uri.path()).ok_or(ApiError::PetNotFound)?;
    let found = gateway.core.call(GetPetRequest { pet_id }, caller).await?;
    let pet = found.pet.ok_or(ApiError::Internal)?;
    Ok(json_response(StatusCode::OK, pet_body(&pet)))
}

/// Returns the identifier in the path's last segment if it is an int64 in its canonical spelling. A resource
/// has one URL, so any other segment names none.
pub(super) fn id_in_path(path: &str) -> Option<i64> {
    let segment = path.rsplit('/').next()?;
    let segment = percent_decode_str(segment).decode_utf8().ok()?;
    let id: i64 = segment.parse().ok()?;
    (id.to_string() == segment).then_some(id)
}

/// Handles `POST /v1/pets`: adds a pet (docs/contract.md, 7.3).
pub(super) async fn create(
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
    if gateway.clock.now() < GET_PET_DEPRECATION.removed_at
        && let Ok(location) = HeaderValue::try_from(format!("/v1/pets/{}", pet.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // If only this gateway repeated the call, the answer is the first for the client.
    if created.replayed && key.is_from_client() {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_canonical_spelling_of_an_int64_names_a_pet() {
        let others = [
            "",
            "01",
            "+1",
            "-0",
            "1.0",
            "1e2",
            "0x1",
            "%201",
            "1%20",
            "x",
            "9223372036854775808",
            "١",
            "%FF",
        ];
        for segment in others {
            assert_eq!(id_in_path(&format!("/v1/pets/{segment}")), None, "{segment}");
        }
        for (segment, id) in [("1", 1), ("0", 0), ("-5", -5), ("%31", 1), ("9223372036854775807", i64::MAX)] {
            assert_eq!(id_in_path(&format!("/v1/pets/{segment}")), Some(id));
        }
    }

    proptest! {
        #[test]
        fn every_int64_names_itself(id: i64) {
            prop_assert_eq!(id_in_path(&format!("/v1/pets/{id}")), Some(id));
        }

        #[test]
        fn no_path_makes_parsing_panic(path in "[/%0-9a-fA-F.+-]{0,40}") {
            let _ = id_in_path(&path);
        }
    }
}
