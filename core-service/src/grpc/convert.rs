//! Conversions between protobuf messages and domain types.

use std::collections::HashSet;

use petstore_clock::UnixMillis;
use petstore_proto::{internal::v1 as internal, v1};

use crate::{
    domain::{
        Ban, BanNote, BanOrigin, Batch, IdempotencyKey, KeyId, KeyState, ListPets, NewPet, Pet, PetStatus,
        PetStoreError, Plan, RawPet, Suspension, Violation, Violations,
    },
    store::ResolvedKey,
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

pub(super) fn resolved_key(key: ResolvedKey, now: UnixMillis) -> internal::ResolvedKey {
    let state = match KeyState::at(now, key.revoked_at, key.expires_at) {
        // Gateways that do not know suspensions are sent a revoked key.
        KeyState::Active if key.suspension.is_some() => internal::KeyState::Revoked,
        KeyState::Active => internal::KeyState::Active,
        KeyState::Revoked => internal::KeyState::Revoked,
        KeyState::Expired => internal::KeyState::Expired,
    };
    let plan = match key.plan {
        Plan::Free => internal::Plan::Free,
        Plan::Pro => internal::Plan::Pro,
        Plan::Business => internal::Plan::Business,
        Plan::Enterprise(_) => internal::Plan::Enterprise,
    };
    let quota = key.plan.quota();
    internal::ResolvedKey {
        key_id: key.key_id,
        account_id: key.account_id.0,
        state: state.into(),
        expires_at_ms: key.expires_at.map(|moment| int64(moment.0)),
        plan: plan.into(),
        per_minute: int64(quota.per_minute),
        per_day: int64(quota.per_day),
        last_ban: last_ban(key.ban.as_ref(), now),
        bans_lifted_at_ms: lifted_at(key.ban.as_ref()),
        suspension: key.suspension.map(|Suspension { reason, .. }| internal::Suspension {
            reason: reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default(),
        }),
    }
}

/// Returns the answer to a reported ban: the stored state of the key's bans.
pub(super) fn reported(
    note: Option<&BanNote>,
    revision: i64,
    now: UnixMillis,
) -> internal::ReportBanResponse {
    internal::ReportBanResponse {
        last_ban: last_ban(note, now),
        revision,
        bans_lifted_at_ms: lifted_at(note),
    }
}

fn last_ban(note: Option<&BanNote>, now: UnixMillis) -> Option<internal::Ban> {
    let Ban { from, until, origin } = note?.last_ban(now)?;
    let (origin, reason) = match origin {
        BanOrigin::Limiter => (internal::BanOrigin::Limiter, None),
        BanOrigin::Operator(reason) => (internal::BanOrigin::Operator, reason.as_ref()),
    };
    Some(internal::Ban {
        imposed_at_ms: int64(from.0),
        ends_at_ms: int64(until.0),
        origin: origin.into(),
        reason: reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default(),
    })
}

fn lifted_at(note: Option<&BanNote>) -> Option<i64> {
    note?.lifted_at().map(|moment| int64(moment.0))
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

fn int64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
