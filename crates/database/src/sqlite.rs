//! A database in one SQLite file: its connections, and opening it, with clear errors if that fails.

use std::{io, path::Path, sync::Arc, time::Duration};

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, TransactionTrait,
    sqlx::{
        ConnectOptions,
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
    },
};
use tokio::{fs, time};

use crate::{
    Database, DatabaseUrl, OpenError, OpenOptions,
    connection::{Connections, Settings, Target},
    fault,
    health::{self, Health},
    migrations::{self, Schema},
    open::prepare_schema,
    revision,
};

/// Number of connections that only read. One more writes: SQLite has one writer at a time, and a second
/// connection would only wait inside the library.
pub(super) const READERS: usize = 4;
/// Timeout for opening while a disk is busy, or while other processes open or migrate the same file. No
/// caller waits for an answer yet, and a start that fails would only be repeated.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

fn connections(options: SqliteConnectOptions, connections: usize, health: &Arc<Health>) -> Connections {
    Connections::new(Settings {
        target: Target::Sqlite(Box::new(options)),
        connections,
        is_for_writes: false,
        job_timeout: None, // closing a connection does not stop what SQLite is doing
        lifetimes: None,   // a file does not close connections
        health: Arc::clone(health),
    })
}

/// Returns one connection, as a pool because migrations require one. It serves no calls.
pub(super) async fn pool(connect: SqliteConnectOptions) -> Result<DatabaseConnection, DbErr> {
    // The path is set in `connect`, without decoding.
    let mut options = sea_orm::ConnectOptions::new("sqlite://");
    options
        .max_connections(1)
        .acquire_timeout(OPEN_TIMEOUT)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_sqlite_opts(move |_| connect.clone());
    sea_orm::Database::connect(options).await
}

fn writing(path: &Path) -> SqliteConnectOptions {
    // An acknowledged write survives a power cut.
    basic(path).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
}

pub(super) fn basic(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false) // a new file is created before, with a restricted mode
        .busy_timeout(Duration::from_secs(2)) // of a write while another process holds the write lock
        .foreign_keys(true)
        .statement_cache_capacity(128) // more than the store has
        .disable_statement_logging()
}

/// Opens the database in the file.
pub(super) async fn open(
    url: &DatabaseUrl,
    path: &Path,
    schema: &Schema,
    options: OpenOptions,
) -> Result<Database, OpenError> {
    let migrator = for_schema(path, schema, options.migrate).await?;
    let database = finish_opening(url, path, schema, options, &migrator).await;
    let _ = migrator.close().await; // the reason is in `database`
    database
}

async fn finish_opening(
    url: &DatabaseUrl,
    path: &Path,
    schema: &Schema,
    options: OpenOptions,
    migrator: &DatabaseConnection,
) -> Result<Database, OpenError> {
    if options.quick_check {
        quick_check(path, migrator).await?;
    }
    let status = || retry_while_busy(path, || migrations::status(migrator, schema));
    let up = || retry_while_busy(path, || migrations::up(migrator, schema));
    prepare_schema(url, schema, options, status, up).await?;
    retry_while_busy(path, || remove_statistics(migrator)).await?;
    let health = Arc::<Health>::default();
    let unreadable = |error: io::Error| OpenError::Other(path.display().to_string(), error.into());
    let file = health::identity(path).await.map_err(unreadable)?;
    let writer = connections(writing(path), 1, &health);
    let reader = connections(basic(path).read_only(true), READERS, &health);
    for connections in [&writer, &reader] {
        retry_while_busy(path, || connections.read(|session| Box::pin(revision::row().all(session)))).await?;
    }
    if !health.open_file(path, file).await.map_err(unreadable)? {
        return Err(OpenError::Replaced(path.to_owned()));
    }
    // More than the waits for a connection (1 s) and for the write lock (2 s) together.
    let deadline = Duration::from_secs(4);
    Ok(Database::new(writer, reader, None, deadline, health))
}

/// Returns a connection for work on the schema, to a file that exists and is writable.
pub(super) async fn for_schema(
    path: &Path,
    schema: &Schema,
    create: bool,
) -> Result<DatabaseConnection, OpenError> {
    prepare_path(path, schema, create).await?;
    let migrator = retry_while_busy(path, || pool(writing(path))).await?;
    // SQLite silently opens a file that it may not write as read-only.
    if let Err(error) = retry_while_busy(path, || prove_writable(&migrator)).await {
        let _ = migrator.close().await; // the reason is `error`
        return Err(error);
    }
    Ok(migrator)
}

pub(super) async fn prepare_path(path: &Path, schema: &Schema, create: bool) -> Result<(), OpenError> {
    // Before the file: another start creates that first. SQLite would remove the log of an empty file.
    let has_log = health::files(path).await.is_ok_and(|[_, log]| log.is_some());
    match fs::metadata(path).await {
        Ok(metadata) if !metadata.is_file() => return Err(OpenError::NotAFile(path.to_owned())),
        Ok(metadata) if has_log && metadata.len() == 0 => return Err(OpenError::LogAlone(path.to_owned())),
        Ok(_) => return Ok(()),
        Err(_) if has_log => return Err(OpenError::LogAlone(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(not_a_folder(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => {
            return Err(OpenError::Missing(path.to_owned(), schema.program));
        }
        Err(_) => {} // other faults are reported when the folder is created or the file is opened
    }
    let mut changed = vec![folder_of(path)];
    while let Some(folder) = changed.last().copied()
        && !fs::try_exists(folder).await.unwrap_or(true)
    {
        changed.push(folder_of(folder));
    }
    fs::create_dir_all(folder_of(path)).await.map_err(|cause| match cause.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => not_a_folder(path),
        _ => OpenError::FolderNotCreated(folder_of(path).to_owned(), cause),
    })?;
    create_file(path).await?;
    for folder in changed {
        sync(folder).await.map_err(|cause| OpenError::NotWritable(path.to_owned(), cause.into()))?;
    }
    Ok(())
}

/// Creates a file that only its owner can read, regardless of the umask, which SQLite would apply. The files
/// that SQLite creates beside it get the same mode.
async fn create_file(path: &Path) -> Result<(), OpenError> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()), // another process was faster
        Err(error) => Err(OpenError::NotWritable(path.to_owned(), error.into())),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the names in the folder are on the disk. Without that, a power cut could remove the file with
/// all acknowledged writes.
async fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder).await?.sync_all().await
}

fn not_a_folder(path: &Path) -> OpenError {
    let part = path.ancestors().skip(1).find(|part| part.exists()).unwrap_or(path).to_owned();
    OpenError::NotAFolder(path.to_owned(), part)
}

/// Writes something, and rolls it back. Taking the lock would not prove it: on a read-only file SQLite begins
/// a read-only transaction instead.
async fn prove_writable(writer: &DatabaseConnection) -> Result<(), DbErr> {
    let transaction = writer.begin_with_options(migrations::immediate()).await?;
    transaction.execute_unprepared("PRAGMA user_version = 0").await?;
    transaction.rollback().await
}

/// Removes the statistics that `ANALYZE` and `PRAGMA optimize` have left. They are never updated
/// automatically: statistics of a table that was small when it was analysed say permanently that it is small,
/// and then the planner reads all of it although the key would lead to the row. Without statistics the
/// planner expects every table to be large, and every statement of the store is made for that. Dropping the
/// tables, and not only their rows, changes the schema. So every open connection, of any process, notices it.
async fn remove_statistics(writer: &DatabaseConnection) -> Result<(), DbErr> {
    let find =
        "SELECT name FROM sqlite_schema WHERE name IN ('sqlite_stat1', 'sqlite_stat3', 'sqlite_stat4')";
    if writer.query_all_raw(Statement::from_string(DbBackend::Sqlite, find)).await?.is_empty() {
        return Ok(()); // without the lock
    }
    let transaction = writer.begin_with_options(migrations::immediate()).await?;
    for table in ["sqlite_stat1", "sqlite_stat3", "sqlite_stat4"] {
        transaction.execute_unprepared(&format!("DROP TABLE IF EXISTS {table}")).await?;
    }
    transaction.commit().await
}

pub(super) async fn quick_check(path: &Path, writer: &DatabaseConnection) -> Result<(), OpenError> {
    let pragma = Statement::from_string(DbBackend::Sqlite, "PRAGMA quick_check(1)");
    let rows = writer.query_all_raw(pragma).await.map_err(|error| explain(path, error))?;
    let finding = rows.first().map(|row| row.try_get_by_index::<String>(0)).transpose();
    match finding.map_err(|error| explain(path, error))?.as_deref() {
        Some("ok") => Ok(()),
        finding => {
            let cause = finding.unwrap_or("quick_check found nothing to say");
            Err(OpenError::Corrupt(path.to_owned(), cause.into()))
        }
    }
}

/// Retries while another process holds the file. Some operations, such as enabling WAL mode, do not wait for
/// it.
pub(super) async fn retry_while_busy<T, F>(path: &Path, attempt: impl Fn() -> F) -> Result<T, OpenError>
where
    F: Future<Output = Result<T, DbErr>>,
{
    let deadline = time::Instant::now() + OPEN_TIMEOUT;
    loop {
        let may_open_soon = |error: &DbErr| fault::is_locked(error) || fault::is_slow_connection(error);
        match attempt().await {
            Err(error) if may_open_soon(&error) && time::Instant::now() < deadline => {
                time::sleep(Duration::from_millis(50)).await;
            }
            result => return result.map_err(|error| explain(path, error)),
        }
    }
}

/// Returns the reason why the file cannot be opened.
pub(super) fn explain(path: &Path, error: DbErr) -> OpenError {
    let path = path.to_owned();
    if fault::is_slow_connection(&error) {
        let cause = "it takes too long: the disk is busy, or another process has locked the file";
        return OpenError::Other(path.display().to_string(), cause.into());
    }
    if fault::is_locked(&error) {
        OpenError::Busy(path, error.into())
    } else if fault::is_not_permitted(&error) {
        OpenError::NotWritable(path, error.into())
    } else if fault::is_no_database(&error) {
        OpenError::Corrupt(path, error.into())
    } else {
        OpenError::Other(path.display().to_string(), error.into())
    }
}

#[cfg(test)]
mod tests;
