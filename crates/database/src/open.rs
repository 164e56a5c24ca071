//! Options for opening the store, and the schemas that it refuses.

use std::{io, path::PathBuf};

use crate::{
    Cause, DatabaseUrl,
    migrations::{Migration, MigrationState, Schema},
};

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

/// Checks the schema, and migrates it if the options say so. `status` and `up` work on it, and wait for other
/// processes that do.
pub(super) async fn prepare_schema<S, U>(
    url: &DatabaseUrl,
    schema: &Schema,
    options: OpenOptions,
    status: impl Fn() -> S,
    up: impl FnOnce() -> U,
) -> Result<(), OpenError>
where
    S: Future<Output = Result<Vec<Migration>, OpenError>>,
    U: Future<Output = Result<(), OpenError>>,
{
    let before = status().await?;
    require_known(url, schema, &before)?;
    if options.migrate {
        up().await?;
    }
    let now = status().await?;
    log_change(&before, &now);
    if now.iter().any(|migration| migration.state == MigrationState::Pending) {
        return Err(OpenError::SchemaOlder(url.clone(), schema.program));
    }
    Ok(())
}

/// Refuses a schema that lacks what this release uses, because a newer release removed it, or one that is
/// discontinued. Additions of newer releases are no obstacle: during a rollout, processes of two releases
/// start on one database.
pub(super) fn require_known(
    url: &DatabaseUrl,
    schema: &Schema,
    found: &[Migration],
) -> Result<(), OpenError> {
    if let Some((change, remedy)) = schema.discontinued
        && found.iter().any(|migration| migration.name == change)
    {
        return Err(OpenError::SchemaDiscontinued(url.clone(), remedy));
    }
    let mut newer = found.iter().filter(|migration| migration.state == MigrationState::Unknown);
    match newer.rfind(|migration| !schema.suits(&migration.name)) {
        Some(removal) => Err(OpenError::SchemaNewer(url.clone(), removal.name.clone())),
        None => Ok(()),
    }
}

/// Logs one line if the schema was changed, with the number of its newest migration.
fn log_change(before: &[Migration], now: &[Migration]) {
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

/// Reason why the store cannot be opened, in one line for an operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist, and must not be created. The program is named.
    #[error("there is no store at {}: run `{} migrate up`, or start the server", .0.display(), .1)]
    Missing(PathBuf, &'static str),
    /// The folder is missing and cannot be created.
    #[error("cannot create the folder {}", .0.display())]
    FolderNotCreated(PathBuf, #[source] io::Error),
    /// A part of the path to the file, which is named last, has to be a folder and is not one.
    #[error("cannot open {}: {} is not a folder", .0.display(), .1.display())]
    NotAFolder(PathBuf, PathBuf),
    /// There is a folder, a device or a pipe in place of the file.
    #[error("cannot open {}: it is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The file or its folder cannot be read or written.
    #[error(
        "cannot open {} for reading and writing: check its permissions, links and file system",
        .0.display()
    )]
    NotWritable(PathBuf, #[source] Cause),
    /// The file is missing or empty, and its log is there.
    #[error("{file} is missing or empty, its data may be in {file}-wal: put it back", file = .0.display())]
    LogAlone(PathBuf),
    /// The file is damaged, or of another kind. It was left as it is.
    #[error("{} is damaged, or is not a SQLite database", .0.display())]
    Corrupt(PathBuf, #[source] Cause),
    /// The file is a SQLite database of another program than the one that is named.
    #[error("{} is not a store of {}", .0.display(), .1)]
    NoStore(PathBuf, &'static str),
    /// Another file took the place of the file while it was being opened.
    #[error("{} was replaced while it was being opened; start again", .0.display())]
    Replaced(PathBuf),
    /// A newer release has removed something from the schema that this binary may use; the newest change that
    /// this binary does not suit is named.
    #[error("the schema of {0} is newer than this binary: it has {1}")]
    SchemaNewer(DatabaseUrl, String),
    /// The schema was made by a build whose data this one cannot migrate. Ends with what to do.
    #[error("{0} {1}")]
    SchemaDiscontinued(DatabaseUrl, &'static str),
    /// The schema lacks changes that this binary, of the program that is named, needs.
    #[error("the schema of {0} is older than this binary, or its user may not see it: run `{1} migrate up`")]
    SchemaOlder(DatabaseUrl, &'static str),
    /// Another process holds the file.
    #[error("{} is locked by another process", .0.display())]
    Busy(PathBuf, #[source] Cause),
    /// The server at this host cannot be reached, or does not answer in time.
    #[error("cannot reach PostgreSQL at {0}")]
    Unreachable(String, #[source] Cause),
    /// The server at this host and port, or in this folder, refuses a connection of the user who is named
    /// next: for the login, a privilege or the number of connections, or because it takes none at the moment.
    #[error("PostgreSQL at {0} refuses a connection as {1}")]
    LoginRefused(String, String, #[source] Cause),
    /// The server at this host has no such database, and none is created.
    #[error("PostgreSQL at {0} has no database {1}: create it first")]
    NoDatabase(String, String),
    /// The database refuses writes.
    #[error("{0} takes no writes: it is a replica, or was made read-only")]
    ReadOnly(DatabaseUrl),
    /// The user lacks a privilege, as the server's message says: often that of creating tables, which
    /// in the schema `public` only the database's owner has since PostgreSQL 15.
    #[error("{0}: {1}; grant the privilege to its user, or migrate as the owner of the database")]
    NotPermitted(DatabaseUrl, String),
    /// The database's encoding, which is named, cannot represent every name.
    #[error("{0} has the encoding {1}: create a database with the encoding UTF8")]
    NotUtf8(DatabaseUrl, String),
    /// The address cannot be that of a replica.
    #[error("a replica must be a PostgreSQL database of the same name as the store's, on another server")]
    NotReplicated,
    /// Any other failure, of the file or the database that is named.
    #[error("cannot open {0}")]
    Other(String, #[source] Cause),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_schema_is_its_newest_applied_migration() {
        let schema = [
            ("m0007_orders", MigrationState::Applied),
            ("m0008_bans", MigrationState::Applied),
            ("m0009_usage", MigrationState::Pending),
        ];
        let schema = schema.map(|(name, state)| Migration { name: name.to_owned(), state });
        assert_eq!((version(&[]), version(&schema)), (0, 8));
    }
}
