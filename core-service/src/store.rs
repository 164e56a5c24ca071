//! The pets, orders, accounts and keys in the database. Only this module uses `SeaORM`.
//!
//! Most calls read single pets or pages, or create pets. Waiting calls of these kinds are batched into one
//! statement or one transaction.

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use moka::sync::Cache;
use petstore_database::{BatchedReads, Database, DatabaseError, DatabaseUrl, OpenError, OpenOptions};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter};

use crate::domain::{Pet, PetStoreError};

pub mod accounts;
pub mod bans;
mod changes;
mod creations;
mod entity;
mod imports;
pub mod keys;
mod orders;
mod pets;
mod refusals;
mod usage;

pub use petstore_migrations::SCHEMA;

pub use usage::MinutesOf;

use changes::Answered;
use pets::{Gets, Lists, PetCreates};

/// The store. Clones share the connections.
#[derive(Clone)]
pub struct Store {
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
    answered: Answered,
}

impl Store {
    /// Opens the store in this database, from whose replicas pets may also be read.
    ///
    /// # Errors
    ///
    /// If the database cannot be opened.
    #[must_use]
    pub fn open<'a>(
        url: &'a DatabaseUrl,
        replicas: &'a [DatabaseUrl],
        options: OpenOptions,
    ) -> BoxFuture<'a, Result<Self, OpenError>> {
        Box::pin(async move {
            let database = Database::open(url, &SCHEMA, options).await?;
            Ok(Self::new(database.with_replicas(url, replicas)?))
        })
    }

    fn new(mut database: Database) -> Self {
        Self {
            pet_cache: None,
            // Pages take longer than single pets, and no caller should wait for the pages of many others.
            gets: database.batched_reads("gets", 1),
            lists: database.batched_reads("lists", 2),
            creates: PetCreates::new(&mut database),
            answered: Answered::default(),
            database,
        }
    }

    /// Returns the store with a cache of the `pets` pets that were read last, for a minute each. By default,
    /// and for 0, there is no cache.
    #[must_use]
    pub fn with_pet_cache(self, pets: u32) -> Self {
        let cache =
            || Cache::builder().max_capacity(pets.into()).time_to_live(Duration::from_mins(1)).build();
        Self { pet_cache: (pets > 0).then(cache), ..self }
    }

    /// Returns the store with metrics of its statements.
    pub(crate) fn counted(self) -> Self {
        Self { database: self.database.counted(), ..self }
    }

    /// Returns the database, with its state.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the name that the store was given when it was created, or when it was migrated to the first
    /// release that names stores. A copy of the database has the same name.
    pub(crate) async fn installation(&self) -> Result<String, PetStoreError> {
        let find = entity::installation::Entity::find().filter(entity::installation::Column::Id.eq(1));
        let row = self.database.all(find).await?.pop();
        row.map(|row| row.name).ok_or_else(|| PetStoreError::Bug("the installation has no name".into()))
    }
}

impl From<DbErr> for PetStoreError {
    fn from(error: DbErr) -> Self {
        DatabaseError::from(error).into()
    }
}

impl From<DatabaseError> for PetStoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unavailable(cause) => Self::Unavailable(cause),
            DatabaseError::Failed(error) => Self::Bug(error.into()),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod cancellation_tests;
#[cfg(test)]
mod query_plan_tests;
#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod scaling_tests;
#[cfg(test)]
pub(crate) mod test_support;
