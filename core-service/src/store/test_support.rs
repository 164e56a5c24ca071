//! New stores, on the engine that `PETSTORE_TEST_ENGINE` names.

use std::path::Path;

use petstore_test_servers::{
    Engine,
    servers::{Database, database_with_schema},
};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, SqliteTransactionMode, TransactionOptions,
    TransactionTrait,
};
use tempfile::TempDir;

use super::{OpenOptions, Store, schema};
use crate::DatabaseUrl;

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
        Box::pin(schema::up(&database.url().parse().unwrap())).await.unwrap();
    })
    .await
}

/// Creates a store in PostgreSQL.
pub(crate) async fn new_database() -> (Store, Database) {
    let database = store_database().await;
    let store = Store::open(&database.url().parse().unwrap(), MIGRATE).await.unwrap();
    (store, database)
}

impl Store {
    pub(crate) fn is_sqlite(&self) -> bool {
        self.writer.backend() == sea_orm::DbBackend::Sqlite
    }

    /// Sends a statement that bypasses all guarantees of the store.
    pub(crate) async fn execute_unchecked(&self, sql: &str) -> Result<(), sea_orm::DbErr> {
        self.writer.execute_unprepared(sql).await.map(drop)
    }
}

/// Opens the store once more, as another process would.
pub(crate) async fn open(home: &Home) -> Store {
    Store::open(&home.url(), MIGRATE).await.unwrap()
}

/// Opens the store in the folder, as another process would.
pub(crate) async fn open_file(folder: &Path) -> Store {
    Store::open(&url(&folder.join("petstore.db")), MIGRATE).await.unwrap()
}

/// Begins a transaction of another process on the store. On SQLite it holds the write lock.
pub(crate) async fn foreign_transaction(url: &DatabaseUrl) -> DatabaseTransaction {
    let url = match url {
        DatabaseUrl::Sqlite(path) => format!("sqlite://{}", path.display()),
        DatabaseUrl::Postgres(address) => {
            format!("postgres://postgres@{}/{}", address.host(), address.database())
        }
    };
    let options = TransactionOptions {
        sqlite_transaction_mode: url.starts_with("sqlite").then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    sea_orm::Database::connect(url).await.unwrap().begin_with_options(options).await.unwrap()
}

/// Blocks every writer of the store until the transaction ends.
pub(crate) async fn lock_for_writing(url: &DatabaseUrl) -> DatabaseTransaction {
    let transaction = foreign_transaction(url).await;
    if transaction.get_database_backend() == DbBackend::Postgres {
        transaction.execute_unprepared("LOCK TABLE pets IN EXCLUSIVE MODE").await.unwrap();
    }
    transaction
}
