//! Creations with an idempotency key: a call that is repeated with the same key adds one pet.

use petstore_clock::UnixMillis;
use petstore_database::{DatabaseError, fault};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    StoredPets,
    creates::{NAMES, is_name_in_use},
};
use crate::{
    errors::PetStoreError,
    pets::{
        Created, IdempotencyKey, NewPet, Pet,
        entity::{self as pet, create_request},
    },
};

impl StoredPets {
    /// Adds a pet, or returns the pet that an earlier call with this key has added. The database settles
    /// races: the key is stored with the pet in one transaction, and is a primary key.
    pub(crate) async fn insert_pet_once(
        &self,
        key: &IdempotencyKey,
        new: NewPet,
        now: UnixMillis,
    ) -> Result<Created, PetStoreError> {
        // The job that still works on it holds the key, even after the caller has given up.
        let key = self.creates.begin(key).ok_or(PetStoreError::RequestInProgress)?;
        let work = async {
            let mut lost_connections = 0;
            // A second time after an expired key was removed, and a third time on another connection.
            for _ in 0..3 {
                match Box::pin(self.creates.add(&new, Some((&key, now)))).await {
                    Ok(Some(id)) => return Ok(Created { pet: new.with_id(id), replayed: false }),
                    Err(error) if is_name_in_use(&error) => return Err(PetStoreError::RequestInProgress),
                    // It is unknown whether the pet was added. The next attempt detects it by the key.
                    Err(error) if lost_connections == 0 && fault::is_passing(&error) => {
                        lost_connections += 1;
                        continue;
                    }
                    Err(error) if !fault::is_duplicate(&error, NAMES) => return Err(error.into()),
                    Ok(None) | Err(_) => {} // a pet was already added with that key
                }
                if let Some(pet) = Box::pin(self.find_created_pet(&key, now)).await? {
                    return if new.clone().with_id(pet.id) == pet {
                        Ok(Created { pet, replayed: true })
                    } else {
                        Err(PetStoreError::IdempotencyKeyReused)
                    };
                }
            }
            Err(PetStoreError::RequestInProgress) // the key appears and expires: others work on it
        };
        self.database.within(work).await
    }

    /// Returns the pet that an earlier creation with this key has added.
    async fn find_created_pet(
        &self,
        key: &IdempotencyKey,
        now: UnixMillis,
    ) -> Result<Option<Pet>, PetStoreError> {
        let Some(request) = self.find_create_request(key, now).await? else { return Ok(None) };
        let find = pet::Entity::find_by_id(request.pet_id);
        let pet = self.database.all(find).await?.into_iter().next();
        let pet =
            pet.ok_or_else(|| PetStoreError::Bug(format!("pet {} is missing", request.pet_id).into()))?;
        pet.try_into().map(Some)
    }

    /// Returns the request that is stored under this key, or `None` after removing an expired key.
    async fn find_create_request(
        &self,
        key: &IdempotencyKey,
        now: UnixMillis,
    ) -> Result<Option<create_request::Model>, DatabaseError> {
        use create_request::Column as C;
        let find = create_request::Entity::find_by_id(key.digest());
        let Some(request) = self.database.all(find).await?.into_iter().next() else { return Ok(None) };
        if request.created_at > expiry(now).as_i64() {
            return Ok(Some(request));
        }
        let (key, created_at) = (key.clone(), request.created_at);
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let expired = create_request::Entity::delete_many()
                        .filter(C::Digest.eq(key.digest()))
                        .filter(C::CreatedAt.eq(created_at));
                    expired.exec(transaction).await?;
                    Ok(None)
                })
            })
            .await
    }

    /// Deletes expired keys, the oldest first: at most `most`, and those of the last one's millisecond.
    /// Returns the number of deleted keys. Selects the bound first, since PostgreSQL reads the whole table to
    /// delete the rows that a subquery selects.
    pub(crate) async fn forget_expired_requests(
        &self,
        now: UnixMillis,
        most: u64,
    ) -> Result<u64, PetStoreError> {
        use create_request::Column as C;
        let expiry = expiry(now).as_i64();
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let full = create_request::Entity::find()
                        .filter(C::CreatedAt.lte(expiry))
                        .order_by_asc(C::CreatedAt)
                        .offset(most.saturating_sub(1))
                        .limit(1)
                        .all(transaction)
                        .await?;
                    let last = full.first().map_or(expiry, |row| row.created_at);
                    let old = create_request::Entity::delete_many().filter(C::CreatedAt.lte(last));
                    Ok(old.exec(transaction).await?.rows_affected)
                })
            })
            .await
    }
}

/// Returns the time at or before which a key must have been stored to be expired by now.
fn expiry(now: UnixMillis) -> UnixMillis {
    now.minus(IdempotencyKey::KEPT)
}

#[cfg(test)]
mod tests;
