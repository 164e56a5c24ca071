//! Backups of a database in a SQLite file.

use std::path::{self, Path};

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};

use crate::{
    DatabaseUrl, OpenError,
    fault::is_no_database,
    migrations::{self, MigrationState, Schema},
    open::require_known,
    sqlite::{basic, explain, pool, prepare_path, quick_check, retry_while_busy},
};

/// Copies the store into an empty file. The copy has everything that was acknowledged before, from the file
/// and its write-ahead log, and nothing that is half written. A running service continues meanwhile.
///
/// # Errors
///
/// If the store cannot be read, or the copy cannot be written.
pub async fn copy(store: &Path, schema: &Schema, empty: &Path) -> Result<(), OpenError> {
    prepare_path(store, schema, false).await?;
    // SQLite takes `file:` at the beginning for a URI, and no path for a database of its own.
    let empty = &path::absolute(empty).map_err(|cause| OpenError::NotWritable(empty.into(), cause.into()))?;
    let connection = retry_while_busy(store, || pool(basic(store))).await?;
    let copied = match require_store(store, schema, &connection).await {
        Ok(()) => vacuum_into(&connection, empty).await.map_err(|error| {
            let folder = empty.parent().filter(|_| !is_no_database(&error)); // what else fails is the copy
            explain(folder.unwrap_or(store), error)
        }),
        Err(error) => Err(error),
    };
    let _ = connection.close().await; // the reason is in `copied`
    copied
}

async fn vacuum_into(connection: &DatabaseConnection, empty: &Path) -> Result<(), DbErr> {
    let path = empty.to_str().ok_or_else(|| DbErr::Custom(format!("{} is not UTF-8", empty.display())))?;
    let vacuum = Statement::from_sql_and_values(DbBackend::Sqlite, "VACUUM INTO ?", [path.into()]);
    connection.execute_raw(vacuum).await.map(drop)
}

/// Checks that a file is an undamaged store that this release can open, alone, without a log beside it.
/// Errors give it this name. Writes nothing.
///
/// # Errors
///
/// If it is not.
pub async fn check(file: &Path, schema: &Schema, name: &Path) -> Result<(), OpenError> {
    let options = basic(file).read_only(true).immutable(true);
    let connection = pool(options).await.map_err(|error| explain(name, error))?;
    let checked = match quick_check(name, &connection).await {
        Ok(()) => require_store(name, schema, &connection).await,
        Err(error) => Err(error),
    };
    let _ = connection.close().await; // the reason is in `checked`
    checked
}

/// Moves the content of the file's log into the file, and removes the log.
///
/// # Errors
///
/// [`OpenError::Busy`] if another process has opened the file, and [`OpenError::Corrupt`] if it is damaged.
pub async fn remove_log(file: &Path) -> Result<(), OpenError> {
    let failed = |error| explain(file, error);
    let connection = pool(basic(file)).await.map_err(failed)?;
    // Leaving WAL mode takes the lock that excludes all other connections.
    let pragma = Statement::from_string(DbBackend::Sqlite, "PRAGMA journal_mode = DELETE");
    let mode = connection.query_one_raw(pragma).await;
    let mode = mode.and_then(|row| row.map_or(Ok(String::new()), |row| row.try_get_by_index(0)));
    let _ = connection.close().await; // the reason is in `mode`
    if mode.map_err(failed)? == "delete" {
        return Ok(());
    }
    Err(OpenError::Busy(file.to_owned(), "its log cannot be removed".into()))
}

async fn require_store(
    name: &Path,
    schema: &Schema,
    connection: &DatabaseConnection,
) -> Result<(), OpenError> {
    let found = retry_while_busy(name, || migrations::status(connection, schema)).await?;
    require_known(&DatabaseUrl::Sqlite(name.to_owned()), schema, &found)?;
    if found.iter().all(|migration| migration.state == MigrationState::Pending) {
        return Err(OpenError::NoStore(name.to_owned(), schema.program));
    }
    Ok(())
}
