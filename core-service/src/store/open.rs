//! How the store is opened, and which schemas it refuses.

use petstore_migrations::{Migration, MigrationState};

pub use error::OpenError;

use crate::DatabaseUrl;

mod error;

/// How to open the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Apply the migrations that are pending; create folder and file of a SQLite store if they are missing. A
    /// PostgreSQL database is never created. Without it, a store that is missing or not up to date is not
    /// opened.
    pub migrate: bool,
    /// Read the whole SQLite file through once for damage (`PRAGMA quick_check`). A server should.
    pub quick_check: bool,
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
