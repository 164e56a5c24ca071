//! Opening the store in a file, and saying plainly why it cannot be opened.

use std::{io, path::Path, time::Duration};

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, TransactionTrait};
use tokio::{fs, time};

use crate::{
    DatabaseUrl,
    store::{
        OpenError, OpenOptions, Store,
        fault::sqlite::{BUSY, CANTOPEN, CORRUPT, LOCKED, NOTADB, PERM, READONLY, code},
        immediate,
        open::{require_current, require_known},
    },
};

/// How long opening waits for other processes that open or migrate the same file.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Opens the store in the file.
pub(in crate::store) async fn open(
    url: &DatabaseUrl,
    path: &Path,
    options: OpenOptions,
) -> Result<Store, OpenError> {
    let writer = open_writer(path, options.migrate).await?;
    match finish_opening(url, path, options, &writer).await {
        Ok(reader) => Ok(Store::on_sqlite(writer, reader)),
        Err(error) => {
            let _ = writer.close().await; // the reason is `error`
            Err(error)
        }
    }
}

async fn finish_opening(
    url: &DatabaseUrl,
    path: &Path,
    options: OpenOptions,
    writer: &DatabaseConnection,
) -> Result<DatabaseConnection, OpenError> {
    if options.quick_check {
        quick_check(path, writer).await?;
    }
    require_known(url, patiently(path, || petstore_migrations::status(writer)).await?)?;
    if options.migrate {
        patiently(path, || petstore_migrations::up(writer)).await?;
    }
    require_current(url, &patiently(path, || petstore_migrations::status(writer)).await?)?;
    patiently(path, || super::reader(path)).await
}

/// The connection that writes, on a file that is there and can be written.
pub(in crate::store) async fn open_writer(
    path: &Path,
    create: bool,
) -> Result<DatabaseConnection, OpenError> {
    prepare_path(path, create).await?;
    let writer = patiently(path, || super::writer(path, create)).await?;
    // SQLite opens a file that it may not write as a read-only one, without a word.
    match patiently(path, || prove_writable(&writer)).await {
        Ok(()) => Ok(writer),
        Err(error) => {
            let _ = writer.close().await; // the reason is `error`
            Err(error)
        }
    }
}

async fn prepare_path(path: &Path, create: bool) -> Result<(), OpenError> {
    match fs::metadata(path).await {
        Ok(metadata) if metadata.is_dir() => return Err(OpenError::NotAFile(path.to_owned())),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(not_a_folder(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => {
            return Err(OpenError::Missing(path.to_owned()));
        }
        Err(_) => {} // what else is wrong shows when the folder is made or the file is opened
    }
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).await.map_err(|cause| match cause.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => not_a_folder(path),
        _ => OpenError::FolderNotCreated { folder: folder.to_owned(), cause },
    })
}

fn not_a_folder(path: &Path) -> OpenError {
    let part = path.ancestors().skip(1).find(|part| part.exists()).unwrap_or(path).to_owned();
    OpenError::NotAFolder { path: path.to_owned(), part }
}

/// Writes something, and takes it back. The lock alone would not tell: on a read-only file SQLite begins a transaction
/// that only reads instead.
async fn prove_writable(writer: &DatabaseConnection) -> Result<(), DbErr> {
    let transaction = writer.begin_with_options(immediate()).await?;
    transaction.execute_unprepared("PRAGMA user_version = 0").await?;
    transaction.rollback().await
}

async fn quick_check(path: &Path, writer: &DatabaseConnection) -> Result<(), OpenError> {
    let pragma = Statement::from_string(DbBackend::Sqlite, "PRAGMA quick_check(1)");
    let rows = writer.query_all_raw(pragma).await.map_err(|error| explain(path, error))?;
    let finding = rows.first().map(|row| row.try_get_by_index::<String>(0)).transpose();
    match finding.map_err(|error| explain(path, error))?.as_deref() {
        Some("ok") => Ok(()),
        finding => Err(OpenError::Corrupt {
            path: path.to_owned(),
            cause: finding.unwrap_or("quick_check found nothing to say").into(),
        }),
    }
}

/// Tries again while another process holds the file: turning WAL mode on, for one, does not wait by itself.
pub(in crate::store) async fn patiently<T, F>(path: &Path, attempt: impl Fn() -> F) -> Result<T, OpenError>
where
    F: Future<Output = Result<T, DbErr>>,
{
    let deadline = time::Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Err(error) if is_busy(&error) && time::Instant::now() < deadline => {
                time::sleep(RETRY_DELAY).await;
            }
            result => return result.map_err(|error| explain(path, error)),
        }
    }
}

fn is_busy(error: &DbErr) -> bool {
    // The pool's own time limit can run out before SQLite's.
    matches!(code(error), Some(BUSY | LOCKED)) || matches!(error, DbErr::ConnectionAcquire(_))
}

fn explain(path: &Path, error: DbErr) -> OpenError {
    let path = path.to_owned();
    if is_busy(&error) {
        return OpenError::Busy { path, cause: error.into() };
    }
    match code(&error) {
        Some(CANTOPEN | PERM | READONLY) => OpenError::NotWritable { path, cause: error.into() },
        Some(CORRUPT | NOTADB) => OpenError::Corrupt { path, cause: error.into() },
        _ => OpenError::Other { path, cause: error.into() },
    }
}

#[cfg(test)]
mod tests;
