//! Options for opening the store, and the schemas that it refuses.

use petstore_migrations::{Migration, MigrationState};

pub use error::OpenError;

use crate::DatabaseUrl;

mod error;

/// Options for opening the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// `true` to apply pending migrations, and to create the folder and file of a SQLite store if they are
    /// missing. A PostgreSQL database is never created. If `false`, a store that is missing or not up to date
    /// is not opened.
    pub migrate: bool,
    /// `true` to read the whole SQLite file through once for damage (`PRAGMA quick_check`). A server should.
    pub quick_check: bool,
}

/// Refuses a schema that a newer release has changed, or that was made before release 1.0.0.
pub(super) fn require_known(url: &DatabaseUrl, schema: &[Migration]) -> Result<(), OpenError> {
    match schema.iter().rfind(|migration| migration.state == MigrationState::Unknown) {
        Some(_) if schema.iter().any(|migration| migration.name == FIRST_BEFORE_1_0) => {
            Err(OpenError::SchemaBeforeRelease(url.clone()))
        }
        Some(unknown) => Err(OpenError::SchemaNewer { store: url.clone(), migration: unknown.name.clone() }),
        None => Ok(()),
    }
}

/// Name of the first migration of builds before release 1.0.0, which no release has.
const FIRST_BEFORE_1_0: &str = "m0001_pets";

/// Logs one line if the schema was changed, with the number of its newest migration.
pub(super) fn log_change(before: &[Migration], now: &[Migration]) {
    match (version(before), version(now)) {
        (0, now) if now > 0 => tracing::info!("created the store, schema {now}"),
        (before, now) if before < now => tracing::info!("updated the store from schema {before} to {now}"),
        _ => {}
    }
}

/// Returns the number of the newest applied migration, or 0.
fn version(schema: &[Migration]) -> u32 {
    let applied = schema.iter().rfind(|migration| migration.state == MigrationState::Applied);
    applied.and_then(|migration| migration.name.get(1..5)?.parse().ok()).unwrap_or(0)
}

/// Refuses a schema that lacks changes.
pub(super) fn require_current(url: &DatabaseUrl, schema: &[Migration]) -> Result<(), OpenError> {
    if schema.iter().all(|migration| migration.state == MigrationState::Applied) {
        Ok(())
    } else {
        Err(OpenError::SchemaOlder(url.clone()))
    }
}
