//! Conversions between protobuf messages and domain types.

use std::collections::HashSet;

use petstore_clock::UnixMillis;
use petstore_proto::{internal::v1 as internal, v1};

use super::call::Result;
use crate::domain::{
    Ban, BanOrigin, Batch, IdempotencyKey, KeyId, ListPets, NewPet, Pet, PetStatus, PetStoreError, RawPet,
    Violation, Violations,
};

pub(super) fn create_pet(request: v1::CreatePetRequest) -> Result<(Option<IdempotencyKey>, NewPet)> {
    let key = IdempotencyKey::parse(&request.request_id)?;
    Ok((key, new_pet(request.pet)?))
}

/// Parses a pet to add.
pub(super) fn new_pet(pet: Option<v1::NewPet>) -> Result<NewPet, Violations> {
    let pet = pet.unwrap_or_default(); // an empty pet fails with all its missing members
    NewPet::parse(RawPet { name: pet.name, category_id: pet.category_id, status: status(pet.status) })
}

pub(super) fn batch(request: v1::BatchCreatePetsRequest) -> Result<Batch> {
    Batch::parse(request.requests.into_iter().map(|request| {
        if request.request_id.is_empty() {
            new_pet(request.pet)
        } else {
            Err(Violation::new("requestId", "must be empty in a batch").into())
        }
    }))
}

pub(super) fn list_pets(request: &v1::ListPetsRequest) -> Result<ListPets> {
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

pub(super) fn reported_ban(ban: Option<internal::Ban>) -> Result<Ban> {
    let ban = ban.unwrap_or_default(); // an absent ban does not end after its start either
    let from = moment("ban.imposed_at_ms", ban.imposed_at_ms)?;
    let until = moment("ban.ends_at_ms", ban.ends_at_ms)?;
    Ban::new(from, until, BanOrigin::Limiter).map_err(refused)
}

/// Parses the keys that were used, each once, with the time of their last use.
pub(super) fn key_uses(uses: Vec<internal::KeyUse>) -> Result<Vec<(String, UnixMillis)>> {
    let mut keys = HashSet::with_capacity(uses.len());
    let mut parse = |key: internal::KeyUse| {
        let id = key_id("uses.key_id", &key.key_id)?;
        if !keys.insert(id) {
            return Err(refuse("uses", "must name each key once"));
        }
        Ok((id.to_string(), moment("uses.last_used_at_ms", key.last_used_at_ms)?))
    };
    uses.into_iter().map(&mut parse).collect()
}

pub(super) fn key_id(field: &'static str, raw: &str) -> Result<KeyId> {
    raw.parse().map_err(|_| refuse(field, "must be the UUID of a key"))
}

/// Parses a time that every column and every client can hold.
pub(super) fn moment(field: &'static str, millis: i64) -> Result<UnixMillis> {
    UnixMillis::from_i64(millis).ok_or_else(|| refuse(field, "must be a time between 1970 and 9999"))
}

/// Returns the error for a parameter that breaks a rule.
pub(super) fn refuse(field: &'static str, rule: &'static str) -> PetStoreError {
    refused(Violation::new(field, rule))
}

pub(super) fn refused(violation: Violation) -> PetStoreError {
    PetStoreError::InvalidParameter(violation.into())
}

fn status(number: i32) -> Result<Option<PetStatus>, Violation> {
    match number {
        0 => Ok(None),
        number => PetStatus::from_number(number).map(Some).ok_or(PetStatus::UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use petstore_proto::admin::v1 as admin;

    use super::*;
    use crate::domain::OrderStatus;

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

    /// The domain has one number for each: that of both contracts.
    #[test]
    fn operators_and_gateways_have_the_same_numbers() {
        macro_rules! assert_alike {
            ($name:ident) => {
                for number in 0..10 {
                    let of_operators = admin::$name::try_from(number).ok().map(|it| it.as_str_name());
                    let of_gateways = internal::$name::try_from(number).ok().map(|it| it.as_str_name());
                    assert_eq!(of_operators, of_gateways);
                }
            };
        }
        assert_alike!(Plan);
        assert_alike!(KeyState);
        assert_alike!(BanOrigin);
    }
}
