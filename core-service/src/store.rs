//! The database of the core.

use futures_util::future::BoxFuture;
use petstore_database::{Database, DatabaseUrl, OpenError, OpenOptions};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use crate::{
    accounts::store::Accounts,
    errors::PetStoreError,
    pages::{Page, PageRequest},
    pets::store::StoredPets,
};

mod entity;

pub use petstore_migrations::SCHEMA;

use entity::installation;

/// The store. Clones share the connections. A resource adds its queries to it in its `store.rs`.
#[derive(Clone)]
pub struct Store {
    pub(crate) database: Database,
    pub(crate) pets: StoredPets,
    /// The accounts.
    pub accounts: Accounts,
}

impl Store {
    /// Opens the store in this database, from whose replicas pets may also be read.
    ///
    /// # Errors
    ///
    /// If the database cannot be opened.
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
        let pets = StoredPets::new(&mut database);
        Self { pets, accounts: Accounts::new(database.clone()), database }
    }

    /// Returns the store with a cache of the `pets` pets that were read last, for a minute each. By default,
    /// and for 0, there is no cache.
    pub fn with_pet_cache(self, pets: u32) -> Self {
        Self { pets: self.pets.with_pet_cache(pets), ..self }
    }

    /// Returns the store with metrics of its statements.
    pub(crate) fn counted(self) -> Self {
        let database = self.database.counted();
        let (pets, accounts) = (self.pets.on(database.clone()), self.accounts.on(database.clone()));
        Self { database, pets, accounts }
    }

    /// Returns the database, with its state.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns a page in ascending order of the identifier, which `id_of` returns. The cost does not depend
    /// on the position: a page begins by key after the last row of the previous one.
    pub(crate) async fn page<E: EntityTrait, T: TryFrom<E::Model, Error = PetStoreError>>(
        &self,
        find: Select<E>,
        id: E::Column,
        page: PageRequest,
        id_of: fn(&T) -> i64,
    ) -> Result<Page<T>, PetStoreError> {
        let after = page.after.map(|after| id.gt(after));
        let rows = find.filter(Condition::all().add_option(after)).order_by_asc(id);
        let rows = rows.limit(page.size.get() as u64 + 1); // one more shows if another page follows
        let rows = self.database.read(move |db| Box::pin(rows.clone().all(db))).await?;
        let rows = rows.into_iter().map(T::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(rows, page.size, page.list, id_of))
    }

    /// Returns the name that the store was given when it was created, or when it was migrated to the first
    /// release that names stores. A copy of the database has the same name.
    pub(crate) async fn installation(&self) -> Result<String, PetStoreError> {
        let find = installation::Entity::find().filter(installation::Column::Id.eq(1));
        let row = self.database.all(find).await?.pop();
        row.map(|row| row.name).ok_or_else(|| PetStoreError::Bug("the installation has no name".into()))
    }
}

#[cfg(test)]
mod query_plan_tests;
#[cfg(test)]
mod scaling_tests;
#[cfg(test)]
pub(crate) mod test_support;
