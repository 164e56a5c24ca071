//! New stores, on the engine that `PETSTORE_TEST_ENGINE` names.

use std::{path::Path, sync::Arc, time::Duration};

use petstore_api_key::Environment;
use petstore_clock::UnixMillis;
use petstore_database::{
    DatabaseUrl, OpenOptions, schema,
    testing::{Observe, foreign_transaction},
};
use petstore_test_servers::{
    Engine,
    servers::{Database, database_with_schema},
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, metric};
use tempfile::TempDir;

use super::{SCHEMA, Store};
use crate::{
    accounts::store::{accounts, bans, keys},
    accounts::{Account, AccountName, ApiKeyRecord, Ban, IssuedKey, KeyId, KeyProperties, Plan, Remark},
    domain::PetStoreError,
};

const MIGRATE: OpenOptions = OpenOptions { migrate: true, quick_check: true };

/// Location of a store, removed when this handle is dropped.
pub(crate) enum Home {
    Folder(TempDir),
    Database(Database),
}

impl Home {
    pub(crate) fn url(&self) -> DatabaseUrl {
        match self {
            Self::Folder(folder) => url(&folder.path().join("petstore.db")),
            Self::Database(database) => database.url().parse().unwrap(),
        }
    }
}

pub(crate) fn url(path: &Path) -> DatabaseUrl {
    format!("sqlite://{}", path.display()).parse().unwrap()
}

/// Creates a store on the engine of this run.
pub(crate) async fn new_store() -> (Store, Home) {
    let home = match Engine::of_this_run() {
        Engine::Sqlite => Home::Folder(tempfile::tempdir().unwrap()),
        Engine::Postgres => Home::Database(store_database().await),
    };
    (open(&home).await, home)
}

/// Creates a store in a file.
pub(crate) async fn new_file() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_file(folder.path()).await;
    (store, folder)
}

/// Creates a database with the schema of the store and no content.
pub(crate) async fn store_database() -> Database {
    database_with_schema(async |database| {
        // Boxed: the compiler bounds how deep the futures of a test may be nested.
        Box::pin(schema::up(&database.url().parse().unwrap(), &SCHEMA)).await.unwrap();
    })
    .await
}

/// Creates a store in PostgreSQL.
pub(crate) async fn new_database() -> (Store, Database) {
    let database = store_database().await;
    let store = Store::open(&database.url().parse().unwrap(), &[], MIGRATE).await.unwrap();
    (store, database)
}

impl Store {
    /// Calls the function after each statement that is sent through this handle.
    pub(crate) fn observe(&mut self, observe: impl Fn(&metric::Info<'_>) + Send + Sync + 'static) {
        let observe: Observe = Arc::new(observe);
        self.database.observe(&observe);
        self.accounts = self.accounts.clone().on(self.database.clone());
        self.catalogue = self.catalogue.clone().on(self.database.clone());
        self.catalogue.observe(&observe);
    }

    /// Sends a statement that bypasses all guarantees of the store.
    pub(crate) async fn execute_unchecked(&self, sql: &str) -> Result<(), sea_orm::DbErr> {
        self.database.writer().execute_unprepared(sql).await.map(drop)
    }
}

/// Opens the store once more, as another process would.
pub(crate) async fn open(home: &Home) -> Store {
    Store::open(&home.url(), &[], MIGRATE).await.unwrap()
}

/// Opens the store in the folder, as another process would.
pub(crate) async fn open_file(folder: &Path) -> Store {
    Store::open(&url(&folder.join("petstore.db")), &[], MIGRATE).await.unwrap()
}

/// Blocks every writer of the store until the transaction ends.
pub(crate) async fn lock_for_writing(url: &DatabaseUrl) -> DatabaseTransaction {
    let transaction = foreign_transaction(url).await.unwrap();
    if transaction.get_database_backend() == DbBackend::Postgres {
        transaction.execute_unprepared("LOCK TABLE pets IN EXCLUSIVE MODE").await.unwrap();
    }
    transaction
}

/// Runs each change in a transaction of its own, as a program does that records who makes them.
impl Store {
    /// Creates an account.
    pub(crate) async fn create_account(
        &self,
        name: &AccountName,
        plan: Plan,
        now: UnixMillis,
    ) -> Result<Account, PetStoreError> {
        let name = name.clone();
        self.database
            .transaction(move |it| Box::pin(async move { accounts::insert(it, &name, plan, now).await }))
            .await
    }

    /// Replaces an account by the result of `change`.
    pub(crate) async fn change_account(
        &self,
        name: &AccountName,
        now: UnixMillis,
        change: impl FnOnce(Account) -> Result<Account, PetStoreError> + Send + 'static,
    ) -> Result<Account, PetStoreError> {
        let name = name.clone();
        let changed = self
            .database
            .transaction(move |it| Box::pin(async move { accounts::change(it, &name, now, change).await }));
        changed.await.map(|(_, after)| after)
    }

    /// Creates a key that is in use in production.
    pub(crate) async fn create_key(
        &self,
        account: &AccountName,
        label: Option<Remark>,
        environment: Environment,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        let account = account.clone();
        let properties = KeyProperties { label, expires_at, ..KeyProperties::default() };
        self.database
            .transaction(move |it| {
                Box::pin(async move { keys::create(it, &account, environment, properties, now).await })
            })
            .await
    }

    /// Revokes a key.
    pub(crate) async fn revoke_key(&self, id: KeyId, now: UnixMillis) -> Result<ApiKeyRecord, PetStoreError> {
        let revoked =
            self.database.transaction(move |it| Box::pin(async move { keys::revoke(it, id, now).await }));
        revoked.await.map(|(_, after)| after)
    }

    /// Replaces a key.
    pub(crate) async fn replace_key(
        &self,
        id: KeyId,
        grace: Duration,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        let replaced = self.database.transaction(move |it| {
            Box::pin(async move {
                let old = keys::find(it, id).await?;
                keys::replace(it, &old, grace, expires_at, now).await
            })
        });
        replaced.await.map(|(new, _)| new)
    }

    /// Bans a key.
    pub(crate) async fn add_ban(
        &self,
        id: KeyId,
        length: Duration,
        reason: Option<Remark>,
        now: UnixMillis,
    ) -> Result<Ban, PetStoreError> {
        let imposed = self
            .database
            .transaction(move |it| Box::pin(async move { bans::impose(it, id, length, reason, now).await }));
        imposed.await.map(|(.., ban)| ban)
    }

    /// Lifts the bans of a key.
    pub(crate) async fn lift_ban(&self, id: KeyId, now: UnixMillis) -> Result<(), PetStoreError> {
        let lifted =
            self.database.transaction(move |it| Box::pin(async move { bans::lift(it, id, now).await }));
        lifted.await.map(drop)
    }
}
