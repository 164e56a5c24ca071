//! `petstore.v1.PetStore`.

use petstore_proto::{
    rpc::{BATCH_CREATE_PETS, CREATE_PET, GET_PET, IMPORT_PETS, LIST_PETS},
    v1::{
        self, BatchCreatePetsRequest, BatchCreatePetsResponse, CreatePetRequest, CreatePetResponse,
        GetPetRequest, GetPetResponse, ImportPetsRequest, ImportPetsResponse, ListPetsRequest,
        ListPetsResponse, pet_store_server::PetStore,
    },
};
use tonic::{Request, Response, Result, Streaming, async_trait};

use super::{Created, IdempotencyKey, ListPets, NewPet, Pet, PetId, PetStatus, creation::parse_batch};
use crate::{
    Core,
    grpc::CallResult,
    violations::{Violation, Violations},
};

mod import;

use import::import;

#[async_trait]
impl PetStore for Core {
    async fn list_pets(&self, request: Request<ListPetsRequest>) -> Result<Response<ListPetsResponse>> {
        self.answer(LIST_PETS, request, |request| async move {
            let list = parse_list(&request)?;
            let status = pet_status(list.status);
            let page = self.store.pets.list_pets(list).await?;
            Ok(ListPetsResponse {
                pets: page.rows.into_iter().map(wire).collect(),
                next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
                status,
            })
        })
        .await
    }

    async fn create_pet(&self, request: Request<CreatePetRequest>) -> Result<Response<CreatePetResponse>> {
        self.answer(CREATE_PET, request, |request| async move {
            let key = IdempotencyKey::parse(&request.request_id)?;
            let new = parse_pet(request.pet)?;
            let created = match key {
                Some(key) => self.store.pets.insert_pet_once(&key, new, self.clock.now()).await?,
                None => Created { pet: self.store.pets.insert_pet(new).await?, replayed: false },
            };
            Ok(CreatePetResponse { pet: Some(wire(created.pet)), replayed: created.replayed })
        })
        .await
    }

    async fn get_pet(&self, request: Request<GetPetRequest>) -> Result<Response<GetPetResponse>> {
        self.answer(GET_PET, request, |request| async move {
            let id = PetId(request.pet_id);
            let pet = self.store.pets.find_pet(id).await?.ok_or_else(|| id.not_found())?;
            Ok(GetPetResponse { pet: Some(wire(pet)) })
        })
        .await
    }

    async fn batch_create_pets(
        &self,
        request: Request<BatchCreatePetsRequest>,
    ) -> Result<Response<BatchCreatePetsResponse>> {
        self.answer(BATCH_CREATE_PETS, request, |request| async move {
            let batch = parse_batch(request.requests.into_iter().map(parse_of_batch))?;
            let _permit = self.chunks.acquire().await; // never closed
            let pets = self.store.pets.insert_pets(batch).await?;
            Ok(BatchCreatePetsResponse { pets: pets.into_iter().map(wire).collect() })
        })
        .await
    }

    async fn import_pets(
        &self,
        request: Request<Streaming<ImportPetsRequest>>,
    ) -> Result<Response<ImportPetsResponse>> {
        let import = |messages| Box::pin(import(self, messages));
        let (metadata, result, extensions) = self.answer(IMPORT_PETS, request, import).await?.into_parts();
        Ok(Response::from_parts(metadata, result?, extensions))
    }
}

/// Parses a pet to add.
fn parse_pet(pet: Option<v1::NewPet>) -> Result<NewPet, Violations> {
    let pet = pet.unwrap_or_default(); // an empty pet fails with all its missing members
    NewPet::parse(pet.name, pet.category_id, status(pet.status))
}

fn parse_of_batch(request: CreatePetRequest) -> Result<NewPet, Violations> {
    Violation::check(request.request_id.is_empty(), "requestId", "must be empty in a batch")?;
    parse_pet(request.pet)
}

fn parse_list(request: &v1::ListPetsRequest) -> CallResult<ListPets> {
    ListPets::parse(request.page_size, &request.page_token, status(request.status))
}

fn wire(pet: Pet) -> v1::Pet {
    v1::Pet {
        id: pet.id.0,
        name: pet.name.into_string(),
        category_id: pet.category_id,
        status: pet_status(pet.status),
    }
}

/// Returns the number of the status in the contract, which is that of the value.
fn pet_status(status: Option<PetStatus>) -> i32 {
    status.map_or(0, |status| status.number().into())
}

fn status(number: i32) -> Result<Option<PetStatus>, Violation> {
    match number {
        0 => Ok(None),
        number => PetStatus::from_number(number).map(Some).ok_or(PetStatus::UNKNOWN),
    }
}

/// Parses a pet to add, and returns it as it is answered, but without an identifier.
///
/// # Errors
///
/// If it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_pet(pet: v1::NewPet) -> CallResult<v1::Pet> {
    let pet = parse_pet(Some(pet))?;
    Ok(wire(pet.with_id(PetId(0))))
}

/// Parses the request for a page of pets.
///
/// # Errors
///
/// If it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_list(request: &v1::ListPetsRequest) -> CallResult<ListPets> {
    parse_list(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::OrderStatus;

    #[test]
    fn a_status_has_one_number_in_the_domain_and_in_the_contract() {
        let names = |number| {
            let pet = v1::PetStatus::try_from(number).ok().map(|it| format!("{it:?}"));
            let order = v1::OrderStatus::try_from(number).ok().map(|it| format!("{it:?}"));
            (pet, order)
        };
        for number in 1..10 {
            let pet = PetStatus::from_number(number).map(|it| format!("{it:?}"));
            let order = OrderStatus::from_number(number).map(|it| format!("{it:?}"));
            assert_eq!((pet, order), names(number));
        }
    }
}
