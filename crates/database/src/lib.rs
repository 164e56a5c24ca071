//! A database in a SQLite file or on PostgreSQL, for a service whose callers wait for an answer.
//!
//! # Promises
//!
//! - An acknowledged write is kept. On SQLite it is on disk (`synchronous = FULL`): it survives a power cut.
//!   On PostgreSQL the server decides what it survives (`synchronous_commit`).
//! - Each connection has one owner, a task that finishes what it began even if its caller gives up. It never
//!   reuses a connection in an unknown state.
//! - Every wait is bounded: for a connection, for a lock, and for an answer.
//! - Waiting calls of one kind share a statement ([`Batched`]).
//! - A schema that this binary does not suit is refused, and pending changes are applied by one process while
//!   others wait ([`Schema`]).
//!
//! On SQLite one connection writes (SQLite has one writer at a time anyway) and four only read, in WAL mode,
//! so that reads continue while a write waits. On PostgreSQL five connections write, five only read, which
//! the server enforces, and each kind of batched call has two more. Streaming
//! [replicas](Database::with_replicas) may answer batched reads.
//!
//! How it fails: a call that the database does not answer in time, and one that it refuses because it is
//! down, busy or full, is [`DatabaseError::Unavailable`]: the same call may succeed later. Anything else is
//! [`DatabaseError::Failed`], a mistake of the program. [`fault`] classifies errors of statements, and
//! [`Database::fault`] says what is wrong with the database as a whole.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use petstore_database::{Database, DatabaseUrl, OpenOptions, Schema, SchemaChange};
//! use sea_orm::{ConnectionTrait, DbErr};
//!
//! const NOTES: SchemaChange = SchemaChange {
//!     name: "m0001_notes",
//!     up: |db| Box::pin(async move { db.execute_unprepared(CREATE).await.map(drop) }),
//!     down: |db| Box::pin(async move { db.execute_unprepared("DROP TABLE notes").await.map(drop) }),
//! };
//! const CREATE: &str = "CREATE TABLE revision (id integer PRIMARY KEY, value bigint NOT NULL);
//!     INSERT INTO revision VALUES (1, 0); CREATE TABLE notes (text varchar NOT NULL)";
//! const SCHEMA: Schema =
//!     Schema { changes: &[NOTES], program: "notes", release: "1.0.0", advisory_lock: 1,
//!         discontinued: None };
//!
//! let folder = tempfile::tempdir()?;
//! let url: DatabaseUrl = format!("sqlite://{}/notes.db", folder.path().display()).parse()?;
//! let options = OpenOptions { migrate: true, quick_check: true };
//! let database = Database::open(&url, &SCHEMA, options).await?;
//! let added = database.transaction(|transaction| Box::pin(async move {
//!     let insert = "INSERT INTO notes (text) VALUES ('Hello')";
//!     Ok::<_, petstore_database::DatabaseError>(transaction.execute_unprepared(insert).await?)
//! }));
//! assert_eq!(added.await?.rows_affected(), 1);
//! database.close().await;
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::{error::Error, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use petstore_telemetry::metrics::Collectors;
use sea_orm::{DbBackend, DbErr};
use tokio::time;

pub mod backup;
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(unreachable_pub, reason = "only tests of other crates name connections")
)]
mod connection;
mod database_url;
pub mod fault;
mod health;
mod metrics;
mod migrations;
mod open;
mod postgres;
mod replicas;
pub mod revision;
pub mod schema;
mod sqlite;
mod statements;

pub use connection::{BatchError, Batched, Batches, Session};
pub use database_url::{DatabaseUrl, PostgresAddress};
pub use migrations::{Loss, Losses, Migration, MigrationState, Schema, SchemaChange};
pub use open::{OpenError, OpenOptions};
pub use replicas::BatchedReads;

use connection::Connections;
use health::Health;
use metrics::StatementMetrics;
use replicas::Replicas;

/// Timeout of a ping. A database that takes longer to answer is down.
pub const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Underlying error: for the log, never for a caller.
type Cause = Box<dyn Error + Send + Sync>;

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The database is unreachable, busy or full: the same call may succeed later.
    #[error("the database is not available at the moment")]
    Unavailable(#[source] Cause),
    /// A statement failed, and would fail again.
    #[error("the database refused a statement")]
    Failed(#[source] DbErr),
    /// A new row has the primary key of another row, on PostgreSQL.
    #[error(
        "the number of a new row is in use: if rows were copied without their sequences, run `migrate up`, \
         which sets these right"
    )]
    NumberTaken(#[source] DbErr),
}

impl From<DbErr> for DatabaseError {
    fn from(error: DbErr) -> Self {
        match error {
            error if fault::is_outage(&error) => Self::Unavailable(error.into()),
            error if fault::is_number_taken(&error) => Self::NumberTaken(error),
            error => Self::Failed(error),
        }
    }
}

/// A database. Clones share the connections.
#[derive(Clone)]
pub struct Database {
    writer: Connections,
    reader: Connections,
    /// Address, on PostgreSQL.
    address: Option<Arc<PostgresAddress>>,
    /// Further connections, each group for one kind of batched call, with its name in metrics. On SQLite
    /// there are none.
    lanes: Arc<Vec<(&'static str, Connections)>>,
    /// Deadline of a call, even if its caller would wait longer.
    deadline: Duration,
    replicas: Replicas,
    health: Arc<Health>,
    statements: StatementMetrics,
}

impl Database {
    /// Opens the database. Never replaces a file that is damaged. Any number of processes may open and
    /// migrate one database at once: one migrates, the others wait.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open<'a>(
        url: &'a DatabaseUrl,
        schema: &'a Schema,
        options: OpenOptions,
    ) -> BoxFuture<'a, Result<Self, OpenError>> {
        Box::pin(async move {
            // Boxed, too: each is many futures deep, and their types would grow past the compiler's bounds.
            match url {
                DatabaseUrl::Sqlite(path) => Box::pin(sqlite::open(url, path, schema, options)).await,
                DatabaseUrl::Postgres(address) => {
                    Box::pin(postgres::open(url, address, schema, options)).await
                }
            }
        })
    }

    fn new(
        writer: Connections,
        reader: Connections,
        address: Option<PostgresAddress>,
        deadline: Duration,
        health: Arc<Health>,
    ) -> Self {
        Self {
            writer,
            reader,
            address: address.map(Arc::new),
            lanes: Arc::default(),
            deadline,
            replicas: Replicas::default(),
            health,
            statements: StatementMetrics::default(),
        }
    }

    /// Returns a handle whose statements are in the metrics. Those of batches always are. A program that also
    /// asks for the [fault](Self::fault) may do so through a handle that does not count.
    pub fn counted(mut self) -> Self {
        self.statements.observe(&mut self.writer);
        self.statements.observe(&mut self.reader);
        self
    }

    /// Returns batches of calls that write. On PostgreSQL they get connections of their own, which have this
    /// name in metrics. `slots` is the number of batches in flight while none is overdue, at most 2.
    pub fn batched_writes<B: Batched>(&mut self, name: &'static str, slots: usize) -> Batches<B> {
        let mut alone = self.writer.clone();
        self.statements.observe(&mut alone);
        Batches::new(self.lane(name, false).unwrap_or_else(|| alone.clone()), alone, slots)
    }

    /// Makes connections for one kind of batched call, on PostgreSQL.
    fn lane(&mut self, name: &'static str, is_read_only: bool) -> Option<Connections> {
        let mut lane = postgres::lane(self.address.as_ref()?, &self.reader, &self.health, is_read_only);
        self.statements.observe(&mut lane);
        Arc::make_mut(&mut self.lanes).push((name, lane.clone()));
        Some(lane)
    }

    /// Returns the kind of database.
    pub fn backend(&self) -> DbBackend {
        self.writer.backend()
    }

    /// Returns the metrics of statements, of the use of connections and of replicas.
    pub fn metrics(&self) -> Collectors {
        let mut metrics = self.statements.collectors();
        metrics.extend([self.pool_metrics(), self.replicas.metrics()]);
        metrics
    }

    /// Closes every connection once the calls in flight are done, or after 5 s. The writer is closed last,
    /// since it checkpoints a SQLite file.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !self.health.is_replaced() && !self.health.is_file_in_place().await {
                self.give_up_file().await;
            }
            self.close_connections().await;
        })
    }

    async fn close_connections(&self) {
        let closing = async {
            self.replicas.close().await;
            self.reader.close().await;
            for (_, lane) in self.lanes.iter() {
                lane.close().await;
            }
            self.writer.close().await;
        };
        if time::timeout(Duration::from_secs(5), closing).await.is_err() {
            tracing::warn!("closed the store while statements were in flight");
        }
    }
}

/// Omits the address of the database, which may hold a password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod test_support;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
