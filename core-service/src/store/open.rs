//! Opening the store.

use petstore_migrations::{Migration, MigrationState};

pub use error::OpenError;

use super::{Store, postgres, sqlite};
use crate::{DatabaseUrl, database_url::Place};

mod error;

/// How to open the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Apply the migrations that are pending; create folder and file of a SQLite store if they are missing. A
    /// PostgreSQL database is never created. Without it, a store that is missing or not up to date is not opened.
    pub migrate: bool,
    /// Read the whole SQLite file through once for damage (`PRAGMA quick_check`). A server should.
    pub quick_check: bool,
}

impl Store {
    /// Opens the store. Never replaces a file that is damaged. Any number of processes may open and migrate one
    /// store at once: one migrates, the others wait.
    ///
    /// # Errors
    ///
    /// Why it cannot be opened.
    pub async fn open(url: &DatabaseUrl, options: OpenOptions) -> Result<Self, OpenError> {
        // Boxed: each is many futures deep, and the types of what awaits them would grow past the compiler's bounds.
        match url.place() {
            Place::Sqlite(path) => Box::pin(sqlite::open(url, path, options)).await,
            Place::Postgres(address) => Box::pin(postgres::open(url, address, options)).await,
        }
    }
}

/// Refuses a schema that a newer release has changed.
pub(super) fn require_known(url: &DatabaseUrl, schema: Vec<Migration>) -> Result<(), OpenError> {
    match schema.into_iter().rfind(|migration| migration.state == MigrationState::Unknown) {
        Some(unknown) => Err(OpenError::SchemaNewer { store: url.clone(), migration: unknown.name }),
        None => Ok(()),
    }
}

/// Refuses a schema that lacks something.
pub(super) fn require_current(url: &DatabaseUrl, schema: &[Migration]) -> Result<(), OpenError> {
    if schema.iter().all(|migration| migration.state == MigrationState::Applied) {
        Ok(())
    } else {
        Err(OpenError::SchemaOlder(url.clone()))
    }
}
