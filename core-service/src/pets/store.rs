//! Pets in the database.
//!
//! Most calls read single pets or pages, or create pets. Waiting calls of these kinds are batched into one
//! statement or one transaction.

use std::{sync::Arc, time::Duration};

use moka::sync::Cache;
use petstore_database::{BatchedReads, Database};
use sea_orm::DbErr;

use super::{ListPets, NewPet, Pet, PetId, entity as pet, list_of_pets};
use crate::{errors::PetStoreError, pages::Page};

mod creates;
mod creations;
mod imports;
mod reads;

use creates::PetCreates;
use reads::{Gets, Lists, Rows};

/// The pets. Clones share the connections.
#[derive(Clone)]
pub(crate) struct StoredPets {
    database: Database,
    /// The pets that were read last, up to a fixed number.
    ///
    /// A pet stays for a minute: nothing changes it, but a server that took over from a lost one may lack the
    /// newest pets, and a database may be restored from a copy while cores run.
    ///
    /// The absence of a pet is never cached: the pet may be added at any time. An operation that changes pets
    /// has to update this cache, and to invalidate the caches of other cores.
    pet_cache: Option<Cache<i64, Pet>>,
    /// Reads of single pets: what a batch runs is `answer` of [`Gets`].
    gets: BatchedReads<Gets>,
    /// Reads of pages: what a batch runs is `answer` of [`Lists`].
    lists: BatchedReads<Lists>,
    creates: PetCreates,
}

impl StoredPets {
    /// Returns the pets in this database, with connections of its own for batches.
    pub(crate) fn new(database: &mut Database) -> Self {
        Self {
            pet_cache: None,
            // Pages take longer than single pets, and no caller should wait for the pages of many others.
            gets: database.batched_reads("gets", 1),
            lists: database.batched_reads("lists", 2),
            creates: PetCreates::new(database),
            database: database.clone(),
        }
    }

    /// Returns the pets with this handle of its database.
    pub(crate) fn on(self, database: Database) -> Self {
        Self { database, ..self }
    }

    /// Returns the pets with a cache of the `pets` pets that were read last, for a minute each. By
    /// default, and for 0, there is no cache.
    pub(crate) fn with_pet_cache(self, pets: u32) -> Self {
        let cache =
            || Cache::builder().max_capacity(pets.into()).time_to_live(Duration::from_mins(1)).build();
        Self { pet_cache: (pets > 0).then(cache), ..self }
    }

    /// Adds a pet, and assigns its identifier.
    pub(crate) async fn insert_pet(&self, new: NewPet) -> Result<Pet, PetStoreError> {
        let added = async { self.creates.add(&new, None).await.map_err(PetStoreError::from) };
        let id = self.database.within(added).await?.ok_or(DbErr::RecordNotInserted)?;
        Ok(new.with_id(id))
    }

    /// Adds pets, all or none. It is one statement. Returns them in their order, which is also that of their
    /// identifiers.
    pub(crate) async fn insert_pets(&self, batch: Vec<NewPet>) -> Result<Vec<Pet>, PetStoreError> {
        let rows: Vec<_> = batch.into_iter().map(pet::ActiveModel::from).collect();
        let mut rows = self.database.insert_rows(rows).await?;
        // Identifiers are assigned in the order of the values, but the order of the returned rows is not
        // guaranteed.
        rows.sort_unstable_by_key(|row| row.id);
        rows.into_iter().map(Pet::try_from).collect()
    }

    /// Returns the pet, if it exists. A replica that has it answers like the primary, because a pet never
    /// changes. A replica that lacks it may only lag.
    pub(crate) async fn find_pet(&self, id: PetId) -> Result<Option<Pet>, PetStoreError> {
        if let Some(pet) = self.pet_cache.as_ref().and_then(|cache| cache.get(&id.0))
            && !self.database.is_replaced()
        {
            return Ok(Some(pet));
        }
        let mut row = self.database.ask_replica(&self.gets, id.0).await.flatten();
        if row.is_none() {
            row = self.database.ask(&self.gets, id.0).await?;
        }
        let pet = row.map(Pet::try_from).transpose()?;
        if let (Some(cache), Some(pet)) = (&self.pet_cache, &pet) {
            cache.insert(id.0, pet.clone());
        }
        Ok(pet)
    }

    /// Returns one page, from a replica if there is one. The cost does not depend on the position: the page
    /// begins by key after the last row of the previous one.
    pub(crate) async fn list_pets(&self, list: ListPets) -> Result<Page<Pet>, PetStoreError> {
        let limit = list.size.get() + 1; // one more shows if another page follows
        let rows = match self.database.ask_replica(&self.lists, Rows::of(list, limit)).await {
            Some(rows) => self.confirm_end(list, Arc::unwrap_or_clone(rows)).await?,
            None => self.first_pet_rows(list, limit).await?,
        };
        let pets = rows.into_iter().map(Pet::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(pets, list.size, list_of_pets(list.status), |pet| pet.id.0))
    }

    async fn first_pet_rows(&self, list: ListPets, limit: usize) -> Result<Vec<pet::Model>, PetStoreError> {
        let rows = self.database.ask(&self.lists, Rows::of(list, limit)).await?;
        Ok(Arc::unwrap_or_clone(rows))
    }

    /// Returns the rows of a replica, completed by the rows of the primary that follow them on the page: a
    /// replica that lags must not end the list early. While the primary does not answer, the replica's rows
    /// are returned unchanged.
    async fn confirm_end(
        &self,
        list: ListPets,
        mut rows: Vec<pet::Model>,
    ) -> Result<Vec<pet::Model>, PetStoreError> {
        let missing = (list.size.get() + 1).saturating_sub(rows.len());
        if missing == 0 {
            return Ok(rows); // another page follows, which repeats the check
        }
        let after = rows.last().map(|row| PetId(row.id)).or(list.after);
        match self.first_pet_rows(ListPets { after, ..list }, missing).await {
            Ok(rest) => rows.extend(rest),
            Err(PetStoreError::Unavailable(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod cancellation_tests;
#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod tests;
