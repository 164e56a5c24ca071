//! The catalogue in the database.
//!
//! Most calls read single pets or pages, or create pets. Waiting calls of these kinds are batched into one
//! statement or one transaction.

use std::time::Duration;

use moka::sync::Cache;
use petstore_database::{BatchedReads, Database};

use super::Pet;

mod arrays;
mod creations;
mod entity;
mod imports;
mod orders;
mod pets;

use pets::{Gets, Lists, PetCreates};

/// The pets and orders. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Catalogue {
    database: Database,
    /// The pets that were read last, up to a fixed number.
    ///
    /// A pet stays for a minute: nothing changes it, but a server that took over from a lost one may lack the
    /// newest pets, and a database may be restored from a copy while cores run.
    ///
    /// The absence of a pet is never cached: the pet may be added at any time. An operation that changes pets
    /// has to update this cache, and to invalidate the caches of other cores.
    pet_cache: Option<Cache<i64, Pet>>,
    gets: BatchedReads<Gets>,
    lists: BatchedReads<Lists>,
    creates: PetCreates,
}

impl Catalogue {
    /// Returns the catalogue in this database, with connections of its own for batches.
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

    /// Returns the catalogue with this handle of its database.
    pub(crate) fn on(self, database: Database) -> Self {
        Self { database, ..self }
    }

    /// Returns the catalogue with a cache of the `pets` pets that were read last, for a minute each. By
    /// default, and for 0, there is no cache.
    pub(crate) fn with_pet_cache(self, pets: u32) -> Self {
        let cache =
            || Cache::builder().max_capacity(pets.into()).time_to_live(Duration::from_mins(1)).build();
        Self { pet_cache: (pets > 0).then(cache), ..self }
    }
}

#[cfg(test)]
mod cancellation_tests;
#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod scaling_tests;
