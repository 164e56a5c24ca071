//! Opening the store, and saying plainly why it cannot be opened.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use petstore_migrations::MigrationState;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, TransactionTrait};
use tokio::{fs, time};

use super::{
    Store, fault,
    fault::sqlite::{BUSY, CANTOPEN, CORRUPT, LOCKED, NOTADB, PERM, READONLY},
    sqlite,
};
use crate::{DatabaseUrl, domain::Cause};

/// How long opening waits for other processes that open or migrate the same file.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// How to open the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Create the folder and the file if they are missing, and apply the migrations that are pending. Without
    /// it, a store that is missing or not up to date is not opened.
    pub migrate: bool,
    /// Read the whole file through once for damage (`PRAGMA quick_check`). A server should.
    pub quick_check: bool,
}

/// Why the store cannot be opened: one line for an operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such file, and none may be created.
    #[error("there is no store at {}: run `petstore migrate up`, or start the server", .0.display())]
    Missing(PathBuf),
    /// The folder is missing and cannot be created.
    #[error("cannot create the folder {}", .folder.display())]
    FolderNotCreated {
        /// The folder.
        folder: PathBuf,
        /// What the operating system says.
        #[source]
        cause: io::Error,
    },
    /// A part of the path that has to be a folder is none.
    #[error("cannot open {}: {} is not a folder", .path.display(), .part.display())]
    NotAFolder {
        /// The file to be opened.
        path: PathBuf,
        /// The part.
        part: PathBuf,
    },
    /// There is a folder in place of the file.
    #[error("cannot open {}: it is a folder, and has to be a file", .0.display())]
    NotAFile(PathBuf),
    /// The file or its folder cannot be read or written.
    #[error("cannot open {} for reading and writing: permission denied, or the file system is read-only", .path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// What the database says.
        #[source]
        cause: Cause,
    },
    /// The file is damaged, or of another kind. It was left as it is.
    #[error("{} is damaged, or is not a SQLite database; restore it from a backup", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the database says.
        #[source]
        cause: Cause,
    },
    /// The schema has changes that this binary does not know.
    #[error("the schema of {} is newer than this binary: it has {migration}", .path.display())]
    SchemaNewer {
        /// The file.
        path: PathBuf,
        /// The newest unknown change.
        migration: String,
    },
    /// The schema lacks changes that this binary needs.
    #[error("the schema of {} is older than this binary: run `petstore migrate up`", .0.display())]
    SchemaOlder(PathBuf),
    /// Another process holds the file.
    #[error("{} is locked by another process", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// What the database says.
        #[source]
        cause: Cause,
    },
    /// Anything else.
    #[error("cannot open {}", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What the database says.
        #[source]
        cause: Cause,
    },
}

impl Store {
    /// Opens the store. Never replaces a file that is damaged.
    ///
    /// # Errors
    ///
    /// Why it cannot be opened.
    pub async fn open(url: &DatabaseUrl, options: OpenOptions) -> Result<Self, OpenError> {
        let path = url.path();
        let writer = open_writer(path, options.migrate).await?;
        match finish_opening(path, options, &writer).await {
            Ok(reader) => Ok(Self { writer, reader }),
            Err(error) => {
                let _ = writer.close().await; // the reason is `error`
                Err(error)
            }
        }
    }
}

async fn finish_opening(
    path: &Path,
    options: OpenOptions,
    writer: &DatabaseConnection,
) -> Result<DatabaseConnection, OpenError> {
    if options.quick_check {
        quick_check(path, writer).await?;
    }
    require_known_schema(path, writer).await?;
    if options.migrate {
        patiently(path, || petstore_migrations::up(writer)).await?;
    }
    require_current_schema(path, writer).await?;
    patiently(path, || sqlite::reader(path)).await
}

/// The connection that writes, on a file that is there and can be written.
pub(super) async fn open_writer(path: &Path, create: bool) -> Result<DatabaseConnection, OpenError> {
    prepare_path(path, create).await?;
    let writer = patiently(path, || sqlite::writer(path, create)).await?;
    // SQLite opens a file that it may not write as a read-only one, without a word: ask for the write lock.
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

async fn prove_writable(writer: &DatabaseConnection) -> Result<(), DbErr> {
    writer.begin_with_options(super::immediate()).await?.rollback().await
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

async fn require_known_schema(path: &Path, writer: &DatabaseConnection) -> Result<(), OpenError> {
    let migrations = patiently(path, || petstore_migrations::status(writer)).await?;
    match migrations.into_iter().rfind(|migration| migration.state == MigrationState::Unknown) {
        Some(unknown) => Err(OpenError::SchemaNewer { path: path.to_owned(), migration: unknown.name }),
        None => Ok(()),
    }
}

async fn require_current_schema(path: &Path, writer: &DatabaseConnection) -> Result<(), OpenError> {
    let migrations = patiently(path, || petstore_migrations::status(writer)).await?;
    if migrations.iter().all(|migration| migration.state == MigrationState::Applied) {
        Ok(())
    } else {
        Err(OpenError::SchemaOlder(path.to_owned()))
    }
}

/// Tries again while another process holds the file: turning WAL mode on, for one, does not wait by itself.
pub(super) async fn patiently<T, F>(path: &Path, attempt: impl Fn() -> F) -> Result<T, OpenError>
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
    matches!(fault::sqlite_code(error), Some(BUSY | LOCKED)) || matches!(error, DbErr::ConnectionAcquire(_))
}

fn explain(path: &Path, error: DbErr) -> OpenError {
    let path = path.to_owned();
    if is_busy(&error) {
        return OpenError::Busy { path, cause: error.into() };
    }
    match fault::sqlite_code(&error) {
        Some(CANTOPEN | PERM | READONLY) => OpenError::NotWritable { path, cause: error.into() },
        Some(CORRUPT | NOTADB) => OpenError::Corrupt { path, cause: error.into() },
        _ => OpenError::Other { path, cause: error.into() },
    }
}

#[cfg(test)]
mod tests;
