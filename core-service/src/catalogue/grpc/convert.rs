//! Conversions between the messages of the catalogue and its types.

use petstore_proto::v1;

use crate::{
    catalogue::{Batch, IdempotencyKey, ListPets, NewPet, Pet, PetStatus, RawPet},
    domain::{Violation, Violations},
    grpc::CallResult,
};

pub(super) fn create_pet(request: v1::CreatePetRequest) -> CallResult<(Option<IdempotencyKey>, NewPet)> {
    let key = IdempotencyKey::parse(&request.request_id)?;
    Ok((key, new_pet(request.pet)?))
}

/// Parses a pet to add.
pub(super) fn new_pet(pet: Option<v1::NewPet>) -> Result<NewPet, Violations> {
    let pet = pet.unwrap_or_default(); // an empty pet fails with all its missing members
    NewPet::parse(RawPet { name: pet.name, category_id: pet.category_id, status: status(pet.status) })
}

pub(super) fn batch(request: v1::BatchCreatePetsRequest) -> CallResult<Batch> {
    Batch::parse(request.requests.into_iter().map(|request| {
        if request.request_id.is_empty() {
            new_pet(request.pet)
        } else {
            Err(Violation::new("requestId", "must be empty in a batch").into())
        }
    }))
}

pub(super) fn list_pets(request: &v1::ListPetsRequest) -> CallResult<ListPets> {
    ListPets::parse(request.page_size, &request.page_token, status(request.status))
}

pub(super) fn pet(pet: Pet) -> v1::Pet {
    v1::Pet {
        id: pet.id.0,
        name: pet.name.into_string(),
        category_id: pet.category_id,
        status: pet_status(pet.status),
    }
}

/// Returns the number of the status in the contract, which is that of the domain.
pub(super) fn pet_status(status: Option<PetStatus>) -> i32 {
    status.map_or(0, |status| status.number().into())
}

fn status(number: i32) -> Result<Option<PetStatus>, Violation> {
    match number {
        0 => Ok(None),
        number => PetStatus::from_number(number).map(Some).ok_or(PetStatus::UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::OrderStatus;

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
