//! New stores, on the engine that `PETSTORE_TEST_ENGINE` names.

use std::{path::Path, sync::Arc};

use petstore_database::{
    OpenOptions, schema,
    testing::{Observe, foreign_transaction},
};
use petstore_test_servers::{
    Home,
    servers::{Database, database_with_schema},
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, metric};
use tempfile::TempDir;

use super::{SCHEMA, Store};

/// Creates a store on the engine of this run.
pub(crate) async fn new_store() -> (Store, Home) {
    let home = Home::new(make_schema).await;
    (open(&home).await, home)
}

async fn make_schema(database: &Database) {
    // Boxed: the compiler bounds how deep the futures of a test may be nested.
    Box::pin(schema::up(&database.url().parse().unwrap(), &SCHEMA)).await.unwrap();
}

/// Creates a store in a file.
pub(crate) async fn new_file() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_file(folder.path()).await;
    (store, folder)
}

/// Creates a store in PostgreSQL.
pub(crate) async fn new_database() -> (Store, Database) {
    let database = database_with_schema(make_schema).await;
    (open_at(&database.url()).await, database)
}

impl Store {
    /// Calls the function after each statement that is sent through this handle.
    pub(crate) fn observe(&mut self, observe: impl Fn(&metric::Info<'_>) + Send + Sync + 'static) {
        let observe: Observe = Arc::new(observe);
        self.database.observe(&observe);
        self.accounts = self.accounts.clone().on(self.database.clone());
        self.pets = self.pets.clone().on(self.database.clone());
        self.pets.observe(&observe);
    }
}

/// Opens the store once more, as another process would.
pub(crate) async fn open(home: &Home) -> Store {
    open_at(&home.url()).await
}

/// Opens the store in the folder, as another process would.
pub(crate) async fn open_file(folder: &Path) -> Store {
    open_at(&format!("sqlite://{}", folder.join("petstore.db").display())).await
}

async fn open_at(url: &str) -> Store {
    let options = OpenOptions { migrate: true, quick_check: true };
    Store::open(&url.parse().unwrap(), &[], options).await.unwrap()
}

/// Blocks every writer of the store until the transaction ends.
pub(crate) async fn lock_for_writing(home: &Home) -> DatabaseTransaction {
    let transaction = foreign_transaction(&home.url().parse().unwrap()).await.unwrap();
    if transaction.get_database_backend() == DbBackend::Postgres {
        transaction.execute_unprepared("LOCK TABLE pets IN EXCLUSIVE MODE").await.unwrap();
    }
    transaction
}
