//! Conversions between protobuf messages and domain types.

use std::collections::HashSet;

use petstore_clock::UnixMillis;
use petstore_proto::{internal::v1 as internal, v1};

use crate::domain::{
    Ban, BanOrigin, Batch, IdempotencyKey, KeyId, ListPets, NewPet, Pet, PetStatus, PetStoreError, RawPet,
    Violation, Violations,
};

pub(super) fn create_pet(
    request: v1::CreatePetRequest,
) -> Result<(Option<IdempotencyKey>, NewPet), PetStoreError> {
    let key = IdempotencyKey::parse(&request.request_id)?;
    Ok((key, new_pet(request.pet)?))
}

/// Parses a pet to add.
pub(super) fn new_pet(pet: Option<v1::NewPet>) -> Result<NewPet, Violations> {
    let pet = pet.unwrap_or_default(); // an empty pet fails with all its missing members
    NewPet::parse(RawPet { name: pet.name, category_id: pet.category_id, status: status(pet.status) })
}

pub(super) fn batch(request: v1::BatchCreatePetsRequest) -> Result<Batch, PetStoreError> {
    Batch::parse(request.requests.into_iter().map(|request| {
        if request.request_id.is_empty() {
            new_pet(request.pet)
        } else {
            Err(Violation::new("request_id", "must be empty in a batch").into())
        }
    }))
}

pub(super) fn list_pets(request: &v1::ListPetsRequest) -> Result<ListPets, PetStoreError> {
    ListPets::parse(request.page_size, &request.page_token, status(request.status))
}

pub(super) fn pet(pet: Pet) -> v1::Pet {
    v1::Pet {
        id: pet.id.0,
        name: pet.name.into_string(),
        category_id: pet.category_id.0,
        status: pet_status(pet.status).into(),
    }
}

pub(super) const fn pet_status(status: Option<PetStatus>) -> v1::PetStatus {
    match status {
        None => v1::PetStatus::Unspecified,
        Some(PetStatus::Available) => v1::PetStatus::Available,
        Some(PetStatus::Pending) => v1::PetStatus::Pending,
        Some(PetStatus::Sold) => v1::PetStatus::Sold,
    }
}

pub(super) fn reported_ban(ban: Option<internal::Ban>) -> Result<Ban, PetStoreError> {
    let ban = ban.unwrap_or_default(); // an absent ban does not end after its start either
    let from = moment("ban.imposed_at_ms", ban.imposed_at_ms)?;
    let until = moment("ban.ends_at_ms", ban.ends_at_ms)?;
    Ban::new(from, until, BanOrigin::Limiter).map_err(refused)
}

/// Parses the keys that were used, each once, with the time of their last use.
pub(super) fn key_uses(uses: Vec<internal::KeyUse>) -> Result<Vec<(String, UnixMillis)>, PetStoreError> {
    let mut keys = HashSet::with_capacity(uses.len());
    let mut parse = |key: internal::KeyUse| {
        let id = key_id("uses.key_id", &key.key_id)?;
        if !keys.insert(id) {
            return Err(refused(Violation::new("uses", "must name each key once")));
        }
        Ok((id.to_string(), moment("uses.last_used_at_ms", key.last_used_at_ms)?))
    };
    uses.into_iter().map(&mut parse).collect()
}

pub(super) fn key_id(field: &'static str, raw: &str) -> Result<KeyId, PetStoreError> {
    raw.parse().map_err(|_| refused(Violation::new(field, "must be the UUID of a key")))
}

/// Parses a time that every column and every client can hold.
pub(super) fn moment(field: &'static str, millis: i64) -> Result<UnixMillis, PetStoreError> {
    /// 9999-12-31T23:59:59.999Z.
    const LAST: u64 = 253_402_300_799_999;
    let millis = u64::try_from(millis).ok().filter(|millis| *millis <= LAST);
    millis.map(UnixMillis).ok_or_else(|| refused(Violation::new(field, "must be a moment from 1970 to 9999")))
}

pub(super) fn refused(violation: Violation) -> PetStoreError {
    PetStoreError::InvalidParameter(violation.into())
}

fn status(number: i32) -> Result<Option<PetStatus>, Violation> {
    match v1::PetStatus::try_from(number) {
        Ok(v1::PetStatus::Unspecified) => Ok(None),
        Ok(v1::PetStatus::Available) => Ok(Some(PetStatus::Available)),
        Ok(v1::PetStatus::Pending) => Ok(Some(PetStatus::Pending)),
        Ok(v1::PetStatus::Sold) => Ok(Some(PetStatus::Sold)),
        Err(_) => Err(PetStatus::UNKNOWN),
    }
}
