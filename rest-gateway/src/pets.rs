//! Pets: the operations of `/v1/pets` (docs/contract.md, 7), their JSON (2.1 to 2.3), and their cells in
//! files that are imported and exported. A new member is only added here.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header, request::Parts};
use petstore_proto::{
    lists,
    rpc::{CREATE_PET, GET_PET, LIST_PETS, Rpc},
    v1::{CreatePetRequest, CreatePetResponse, GetPetRequest, ListPetsRequest, NewPet, Pet, PetStatus},
};
use serde::Serialize;

use crate::{
    deprecation::GET_PET_REMOVED_AT,
    error::{ApiError, InputFault},
    extract::{Creation, Filter, NoInput, PathId, Resource},
    gateway::GatewayState,
    json::{
        FromMembers, Members, array_body, fault, json_response, number, object, object_body, required, text,
        whole_number, word, words_rule,
    },
    page_query::PageQuery,
    request::Caller,
};

impl Resource for Pet {
    const LIST: u8 = lists::PETS;
    const FILTER: Option<Filter> = Some(Filter { name: "status", words: &STATUSES });
    const NOT_FOUND: ApiError = ApiError::PetNotFound;
}

/// Handles `GET /v1/pets`: a page of pets (docs/contract.md, 7.2).
pub(crate) async fn list_pets(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    query: PageQuery<Pet>,
) -> Result<Response, ApiError> {
    let (page_size, page_token) = (query.page_size, query.page_token.clone());
    let request = ListPetsRequest { page_size, page_token, status: query.filter };
    let page = gateway.core.call(LIST_PETS, request, &caller, |core, it| core.pets.list_pets(it)).await?;
    let body = array_body(page.pets.iter().map(PetBody::from));
    Ok(query.page(body, &page.next_page_token, page.status))
}

/// Proof that `GET /v1/pets/{petId}` is in service: neither removed, nor off for a rehearsal.
pub(crate) struct InService;

impl FromRequestParts<Arc<GatewayState>> for InService {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<GatewayState>) -> Result<Self, ApiError> {
        if gateway.clock.now() >= GET_PET_REMOVED_AT {
            return Err(ApiError::OperationRemoved);
        }
        let caller: &Caller = parts.extensions.get().ok_or(ApiError::Internal)?;
        let brownout = gateway.brownouts.in_force_until(caller.account_id, gateway.keys.core_now());
        brownout.map_or(Ok(Self), |until| Err(ApiError::OperationBrownout { until }))
    }
}

/// Handles `GET /v1/pets/{petId}`: one pet (docs/contract.md, 7.5). Deprecated until [`GET_PET_REMOVED_AT`].
pub(crate) async fn get_pet(
    State(gateway): State<Arc<GatewayState>>,
    _: InService,
    caller: Caller,
    _: NoInput,
    PathId { id: pet_id, .. }: PathId<Pet>,
) -> Result<Response, ApiError> {
    let request = GetPetRequest { pet_id };
    let found = gateway.core.call(GET_PET, request, &caller, |core, it| core.pets.get_pet(it)).await?;
    let pet = found.pet.ok_or(ApiError::Internal)?;
    Ok(json_response(StatusCode::OK, to_json(&pet)))
}

/// Handles `POST /v1/pets`: adds a pet (docs/contract.md, 7.3).
pub(crate) async fn create_pet(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    Creation { key, resource: pet }: Creation<NewPet>,
) -> Result<Response, ApiError> {
    let request = CreatePetRequest { pet: Some(pet), request_id: key.name.clone() };
    // A creation with a name may be repeated (AIP-155).
    let rpc = Rpc { is_idempotent: true, ..CREATE_PET };
    let answered = gateway.core.call(rpc, request, &caller, |core, it| core.pets.create_pet(it)).await;
    let CreatePetResponse { pet, replayed } = answered.map_err(|error| key.explain(error))?;
    let pet = pet.ok_or(ApiError::Internal)?;

    let mut response = json_response(StatusCode::CREATED, to_json(&pet));
    if gateway.clock.now() < GET_PET_REMOVED_AT
        && let Ok(location) = HeaderValue::try_from(format!("/v1/pets/{}", pet.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    if replayed {
        key.mark_replayed(&mut response);
    }
    Ok(response)
}

/// Members of a pet that clients set, which are also the columns of a table, after the identifier.
pub const COLUMNS: [&str; 3] = ["name", "categoryId", "status"];

/// Members of these that are required, in bodies and as columns.
pub const REQUIRED_COLUMNS: [&str; 2] = ["name", "categoryId"];

/// Status number for an unknown word. It shows the core that a status is present but invalid: the core
/// validates values, and this module only their shape.
const UNKNOWN_STATUS: i32 = -1;

/// Words of `PetStatus`.
const STATUSES: [&str; 3] = ["available", "pending", "sold"];

/// Pet object. Identifiers are JSON numbers, exact over the whole range of int64.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PetBody<'a> {
    id: i64,
    name: &'a str,
    category_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

impl<'a> From<&'a Pet> for PetBody<'a> {
    fn from(pet: &'a Pet) -> Self {
        let status = word(&STATUSES, pet.status);
        Self { id: pet.id, name: &pet.name, category_id: pet.category_id, status }
    }
}

/// Returns one pet as JSON.
pub fn to_json(pet: &Pet) -> Vec<u8> {
    object_body(&PetBody::from(pet))
}

/// Returns the cells of a pet in a table: its identifier and then the [`COLUMNS`]. The cell of a missing
/// member is empty.
pub fn to_cells(pet: &Pet) -> [String; COLUMNS.len() + 1] {
    let PetBody { id, name, category_id, status } = pet.into();
    [id.to_string(), name.to_owned(), category_id.to_string(), status.unwrap_or_default().to_owned()]
}

/// Reason why a row of a file is not a pet: the name of an `ErrorReason`, without its prefix, and a message
/// for people. Values are judged by the core.
pub type RowError = (&'static str, String);

impl From<ApiError> for RowError {
    fn from(error: ApiError) -> Self {
        (error.reason().code().name, error.to_string())
    }
}

/// Returns the pet that a JSON text describes, as the body of `POST /v1/pets` does. Other members are
/// ignored, `id` among them.
///
/// # Errors
///
/// If that operation refuses the body, for the same reason.
pub fn from_json(text: &[u8]) -> Result<NewPet, RowError> {
    Ok(NewPet::from_members(&object(text)?)?)
}

/// Returns the pet in the cells of the [`COLUMNS`]. A missing or empty cell is an omitted member.
///
/// # Errors
///
/// If the same members in JSON are refused, for the same reason.
pub fn from_cells(cells: [Option<&str>; COLUMNS.len()]) -> Result<NewPet, RowError> {
    let [name, category_id, status] = cells.map(|cell| cell.filter(|cell| !cell.is_empty()));
    let category_id = category_id.map(whole_number).transpose().map_err(fault("categoryId"));
    Ok(new_pet(Ok(name.map(str::to_owned)), category_id, Ok(status.map(parse_status)))?)
}

impl FromMembers for NewPet {
    const MEMBERS: &'static [&'static str] = &COLUMNS;

    fn from_members(members: &Members<'_>) -> Result<Self, ApiError> {
        let status =
            |value: &_| text(value).map(|word| parse_status(&word)).map_err(|_| words_rule(&STATUSES));
        new_pet(
            members.optional("name", text),
            members.optional("categoryId", |value| whole_number(value.get())),
            members.optional("status", status),
        )
    }
}

/// Returns a pet of these members, or one error that names every member that is missing or has the wrong
/// type.
fn new_pet(
    name: Result<Option<String>, InputFault>,
    category_id: Result<Option<i64>, InputFault>,
    status: Result<Option<i32>, InputFault>,
) -> Result<NewPet, ApiError> {
    match (required("name", name), required("categoryId", category_id), status) {
        (Ok(name), Ok(category_id), Ok(status)) => {
            let status = status.unwrap_or(PetStatus::Unspecified.into());
            Ok(NewPet { name, category_id: Some(category_id), status })
        }
        (name, category_id, status) => {
            let faults = [name.err(), category_id.err(), status.err()];
            Err(ApiError::ValidationFailed(faults.into_iter().flatten().collect::<Vec<_>>().into()))
        }
    }
}

fn parse_status(word: &str) -> i32 {
    number(&STATUSES, word).map_or(UNKNOWN_STATUS, i32::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pet(id: i64, name: &str, category_id: i64, status: PetStatus) -> Pet {
        let mut pet = Pet { id, name: name.to_owned(), category_id, ..Pet::default() };
        pet.set_status(status);
        pet
    }

    fn new(name: &str, category_id: i64, status: PetStatus) -> NewPet {
        NewPet { name: name.to_owned(), category_id: Some(category_id), status: status.into() }
    }

    #[test]
    fn every_status_of_the_contract_has_its_word() {
        let names = (1..).map_while(|number| PetStatus::try_from(number).ok()).map(|it| it.as_str_name());
        let words: Vec<_> = names.map(|name| name.trim_start_matches("PET_STATUS_").to_lowercase()).collect();
        assert_eq!(words, STATUSES);
    }

    #[test]
    fn an_unknown_status_word_is_left_for_the_core_to_refuse() {
        for word in ["", "Sold", "sold ", "gone"] {
            let body = json!({ "name": "Rex", "categoryId": 1, "status": word }).to_string();
            assert_eq!(
                from_json(body.as_bytes()),
                Ok(NewPet { status: UNKNOWN_STATUS, ..new("Rex", 1, PetStatus::Unspecified) })
            );
        }
    }

    #[test]
    fn a_category_is_a_whole_int64_written_as_such() {
        let with = |number: &str| from_json(format!(r#"{{"name":"Rex","categoryId":{number}}}"#).as_bytes());
        for number in ["1.0", "1e2", "9223372036854775808", "-9223372036854775809", "1e400", "\"1\"", "[1]"] {
            assert_eq!(with(number).unwrap_err().0, "VALIDATION_FAILED", "{number}");
        }
        assert_eq!(with("-0"), Ok(new("Rex", 0, PetStatus::Unspecified)));
    }

    #[test]
    fn cells_become_members_by_column_name_and_empty_ones_are_left_out() {
        let read = |given: &[&'static str]| {
            let mut cells = [None; COLUMNS.len()];
            cells.iter_mut().zip(given).for_each(|(cell, given)| *cell = Some(*given));
            from_cells(cells)
        };
        assert_eq!(read(&[" Rex", "-7", "sold"]), Ok(new(" Rex", -7, PetStatus::Sold)));
        assert_eq!(read(&["Rex", "7", ""]), Ok(new("Rex", 7, PetStatus::Unspecified)));
        assert_eq!(read(&["Rex", "7", "Sold"]).unwrap().status, UNKNOWN_STATUS);
        for empty in [&[][..], &["", ""]] {
            assert_eq!(read(empty), from_json(b"{}"));
        }
        for given in [&["Rex", "1.0"], &["Rex", "+7"], &["Rex", "007"], &["Rex", " 7"]] {
            assert_eq!(read(given), from_json(br#"{"name":"Rex","categoryId":1.0}"#), "{given:?}");
        }
    }

    #[test]
    fn a_status_that_was_not_given_is_left_out() {
        let body = to_json(&pet(i64::MAX, "a\"b", i64::MIN, PetStatus::Unspecified));
        let expected = r#"{"id":9223372036854775807,"name":"a\"b","categoryId":-9223372036854775808}"#;
        assert_eq!(body, expected.as_bytes());
    }

    proptest! {
        #[test]
        fn every_value_is_read_and_written_exactly(id: i64, category_id: i64, name in any::<String>()) {
            let written = to_json(&pet(id, &name, category_id, PetStatus::Sold));
            let expected = json!({ "id": id, "name": name, "categoryId": category_id, "status": "sold" });
            prop_assert_eq!(&serde_json::from_slice::<serde_json::Value>(&written).unwrap(), &expected);
            prop_assert_eq!(from_json(&written), Ok(new(&name, category_id, PetStatus::Sold)));
        }
    }
}
