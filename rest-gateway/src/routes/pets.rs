//! Handlers of `/v1/pets`: the pets (docs/contract.md, 7).

use axum::{extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use percent_encoding::percent_decode_str;
use petstore_clock::Clock;
use petstore_proto::{
    lists,
    v1::{CreatePetRequest, GetPetRequest, ListPetsRequest, PetStatus},
};

use super::paging::{self, AnsweredPage, PageRequest, Query};
use crate::{
    core_calls::call,
    error::ApiError,
    gateway::GatewayState,
    json::{
        json_response,
        pet::{new_pet, pet_body, pets_body},
    },
    operation::GET_PET_DEPRECATION,
    request_body,
    request_id::{Caller, uuid_v7},
};

/// Handles `GET /v1/pets`: a page of pets (docs/contract.md, 7.2).
pub(super) async fn list(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let fetch = |PageRequest { page_size, page_token, status }| async move {
        let request = ListPetsRequest { page_size, page_token, status: status.into() };
        let page = call(&gateway.core, request, caller).await?;
        let (body, status) = (pets_body(&page.pets), PetStatus::try_from(page.status).ok());
        Ok(AnsweredPage { body, next_page_token: page.next_page_token, status })
    };
    paging::list("/v1/pets", |status| lists::PETS + status as u8, query, fetch).await
}

/// Handles `GET /v1/pets/{petId}`: one pet (docs/contract.md, 7.5). Deprecated, see [`GET_PET_DEPRECATION`].
pub(super) async fn get(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
) -> Result<Response, ApiError> {
    if gateway.clock.now() >= GET_PET_DEPRECATION.removed_at {
        return Err(ApiError::OperationRemoved);
    }
    let pet_id = id_in_path(request.uri().path()).ok_or(ApiError::PetNotFound)?;
    let found = call(&gateway.core, GetPetRequest { pet_id }, caller).await?;
    let pet = found.pet.ok_or(ApiError::Internal)?;
    Ok(json_response(StatusCode::OK, pet_body(&pet)))
}

/// Returns the identifier in the path's last segment if it is an int64 in its canonical spelling. A resource
/// has one URL, so any other segment names none.
fn id_in_path(path: &str) -> Option<i64> {
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
    let created = call(&gateway.core, message, caller).await.map_err(|error| key.explain(error))?;
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

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Header field that marks an answer as a repetition of that to an earlier request.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Name of a creation, by which the core recognises its repetitions.
#[derive(Debug, PartialEq)]
pub(super) enum CreationKey {
    /// Name from the client, prefixed with its account.
    FromClient(String),
    /// Unique name from this gateway, so that it can ask again when an answer is lost.
    Generated(String),
}

impl CreationKey {
    /// Returns the key of a request of the account.
    pub(super) fn from_headers(
        headers: &HeaderMap,
        account_id: i64,
        clock: &Clock,
    ) -> Result<Self, ApiError> {
        let mut fields = headers.get_all(IDEMPOTENCY_KEY).into_iter();
        match (fields.next(), fields.next()) {
            (None, _) => Ok(Self::Generated(uuid_v7(clock).to_string())),
            (Some(only), None) => {
                let key =
                    only.to_str().ok().filter(|key| is_key(key)).ok_or(ApiError::InvalidIdempotencyKey)?;
                Ok(Self::FromClient(format!("rest/{account_id}/{key}")))
            }
            (Some(_), Some(_)) => Err(ApiError::InvalidIdempotencyKey),
        }
    }

    const fn is_from_client(&self) -> bool {
        matches!(self, Self::FromClient(_))
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::FromClient(name) | Self::Generated(name) => name,
        }
    }

    /// Returns the error for the client, without mention of a key that the client did not choose.
    fn explain(&self, error: ApiError) -> ApiError {
        match (self, error) {
            (Self::Generated(_), ApiError::IdempotencyInProgress { retry_after }) => {
                ApiError::Unavailable { retry_after }
            }
            (_, error) => error,
        }
    }
}

fn is_key(written: &str) -> bool {
    (1..=255).contains(&written.len()) && written.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
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

    fn parse(keys: &[&[u8]]) -> Result<CreationKey, ApiError> {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
        }
        CreationKey::from_headers(&headers, 7, &Clock::system())
    }

    #[test]
    fn a_key_is_one_field_of_1_to_255_visible_ascii_characters() {
        let key = parse(&[b"a/\"b!~"]).unwrap();
        assert!(key.is_from_client());
        assert_eq!(key.as_str(), "rest/7/a/\"b!~");
        assert!(parse(&[&[b'x'; 255]]).is_ok());
        let bad: [&[&[u8]]; 6] =
            [&[b""], &[b"a b"], &[b"a\tb"], &[b"\xc3\xa9"], &[&[b'x'; 256]], &[b"a", b"a"]];
        for keys in bad {
            assert_eq!(parse(keys), Err(ApiError::InvalidIdempotencyKey), "{keys:?}");
        }
    }

    #[test]
    fn without_a_key_every_request_has_its_own_creation_key() {
        let (one, other) = (parse(&[]).unwrap(), parse(&[]).unwrap());
        assert!(!one.is_from_client() && one != other);
        assert_eq!(one.as_str().len(), 36);
    }
}
