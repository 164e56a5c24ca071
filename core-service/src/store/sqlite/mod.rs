//! Connections to one SQLite file.

use std::{path::Path, time::Duration};

use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DbErr,
    sqlx::{
        Connection,
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
    },
};

mod open;

pub(super) use open::{open, open_writer, patiently};

/// SQLite has one writer at a time; a second connection would only wait inside the library.
const WRITERS: u32 = 1;
const READERS: u32 = 4;
/// How long a call waits for one of them.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a write waits for another process that holds the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Statements kept prepared on each connection: more than the store has.
const STATEMENT_CACHE: usize = 128;

/// The connection that writes. Creates the file if `create` is set and there is none.
async fn writer(path: &Path, create: bool) -> Result<DatabaseConnection, DbErr> {
    connect(path, WRITERS, move |options| {
        options
            .create_if_missing(create)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full) // an acknowledged write survives a power cut
            .optimize_on_close(true, None)
    })
    .await
}

/// The connections that only read.
async fn reader(path: &Path) -> Result<DatabaseConnection, DbErr> {
    connect(path, READERS, |options| options.create_if_missing(false).read_only(true)).await
}

async fn connect(
    path: &Path,
    connections: u32,
    adjust: impl Fn(SqliteConnectOptions) -> SqliteConnectOptions + Send + Sync + 'static,
) -> Result<DatabaseConnection, DbErr> {
    let path = path.to_owned();
    let mut options = ConnectOptions::new("sqlite://"); // the path goes in below, where nothing decodes it
    options
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None::<Duration>) // a file does not hang up
        .max_lifetime(None::<Duration>)
        .test_before_acquire(false)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        // On a full disk SQLite rolls back by itself, and the driver takes the transaction to be open for ever after:
        // what it commits then is a savepoint, and lost. Such a connection is given up for a new one.
        .map_sqlx_sqlite_before_acquire(|connection, _| {
            let is_in_order = !connection.is_in_transaction();
            Box::pin(async move { Ok(is_in_order) })
        })
        .map_sqlx_sqlite_opts(move |options| {
            let options = options
                .filename(&path)
                .busy_timeout(BUSY_TIMEOUT)
                .foreign_keys(true)
                .statement_cache_capacity(STATEMENT_CACHE);
            adjust(options)
        });
    Database::connect(options).await
}
