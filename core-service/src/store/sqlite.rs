//! Connections to one SQLite file.

use std::{path::Path, time::Duration};

use sea_orm::{
    Database, DatabaseConnection, DbBackend, DbErr, SqliteTransactionMode, Statement, TransactionOptions,
    sqlx::{
        ConnectOptions,
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
    },
};

use super::{
    connection::{Connections, Settings, Target},
    health::Health,
};

mod open;

pub(super) use open::{for_schema, open, retry_while_busy};

/// Number of connections that only read. One more writes: SQLite has one writer at a time, and a second
/// connection would only wait inside the library.
pub(super) const READERS: usize = 4;
/// Timeout for opening while a disk is busy, or while other processes open or migrate the same file. No
/// caller waits for an answer yet, and a start that fails would only be repeated.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the connection that writes.
fn writer(path: &Path, health: Health) -> Connections {
    connections(writing(path), 1, health)
}

/// Returns the connections that only read.
fn reader(path: &Path, health: Health) -> Connections {
    connections(basic(path).read_only(true), READERS, health)
}

fn connections(options: SqliteConnectOptions, connections: usize, health: Health) -> Connections {
    Connections::new(Settings {
        target: Target::Sqlite(Box::new(options)),
        connections,
        is_for_writes: false,
        job_timeout: None, // closing a connection does not stop what SQLite is doing
        lifetimes: None,   // a file does not close connections
        health,
    })
}

/// Returns one connection for the schema, as a pool because migrations require one. It serves no calls.
async fn migrator(path: &Path) -> Result<DatabaseConnection, DbErr> {
    let connect = writing(path);
    // The path was set above without decoding.
    let mut options = sea_orm::ConnectOptions::new("sqlite://");
    options
        .max_connections(1)
        .acquire_timeout(OPEN_TIMEOUT)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_sqlite_opts(move |_| connect.clone());
    Database::connect(options).await
}

/// Moves the content of the write-ahead log into the open file, and leaves an empty log.
pub(super) async fn empty_log(writer: &Connections) -> Result<(), DbErr> {
    let pragma = Statement::from_string(DbBackend::Sqlite, "PRAGMA wal_checkpoint(TRUNCATE)");
    let rows = writer.query(pragma).await?;
    match rows.first().map(|row| row.try_get_by_index::<i64>(0)).transpose()? {
        Some(0) => Ok(()),
        _ => Err(DbErr::Custom("another process reads the file".into())),
    }
}

fn writing(path: &Path) -> SqliteConnectOptions {
    // An acknowledged write survives a power cut.
    basic(path).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
}

/// Returns the options of transactions that hold the write lock from their beginning.
fn immediate() -> TransactionOptions {
    TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    }
}

fn basic(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false) // a new file is created before, with a restricted mode
        .busy_timeout(Duration::from_secs(2)) // of a write while another process holds the write lock
        .foreign_keys(true)
        .statement_cache_capacity(128) // more than the store has
        .disable_statement_logging()
}
