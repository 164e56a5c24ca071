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
//!     Schema { changes: &[NOTES], release: "1.0.0", advisory_lock: 1, discontinued: None };
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

use std::{convert::Infallible, error::Error, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use petstore_telemetry::{
    metrics::Collectors,
    parts::{Fault, FaultCause, PartState},
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait,
    FromQueryResult, IntoActiveModel, Iterable, PaginatorTrait, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait, Select, Statement,
    sea_query::{Expr, Query, SelectStatement},
};
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

pub use connection::{BatchError, Batched, Batches, Session};
pub use database_url::{DatabaseUrl, DatabaseUrlError, PostgresAddress};
pub use migrations::{Loss, Losses, Migration, MigrationState, Schema, SchemaChange};
pub use open::{OpenError, OpenOptions};
pub use replicas::BatchedReads;

use connection::Connections;
use health::Health;
use metrics::StatementMetrics;
use postgres::Use;
use replicas::Replicas;

/// Timeout of a ping. A database that takes longer to answer is down.
pub const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Underlying error: for the log, never for a caller.
type Cause = Box<dyn Error + Send + Sync>;

type ModelOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Model;

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The database is unreachable, busy or full: the same call may succeed later.
    #[error("the database is not available at the moment")]
    Unavailable(#[source] Cause),
    /// A statement failed, and would fail again.
    #[error("the database refused a statement")]
    Failed(#[source] DbErr),
}

impl From<DbErr> for DatabaseError {
    fn from(error: DbErr) -> Self {
        if fault::is_outage(&error) { Self::Unavailable(error.into()) } else { Self::Failed(error) }
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
    health: Health,
    statements: StatementMetrics,
}

impl Database {
    /// Opens the database. Never replaces a file that is damaged. Any number of processes may open and
    /// migrate one database at once: one migrates, the others wait.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    #[must_use]
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
        health: Health,
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
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.statements.observe(&mut self.writer);
        self.statements.observe(&mut self.reader);
        self
    }

    /// Returns batches of calls that write. On PostgreSQL they get connections of their own, which have this
    /// name in metrics. `slots` is the number of batches in flight while none is overdue, at most 2.
    #[must_use]
    pub fn batched_writes<B: Batched>(&mut self, name: &'static str, slots: usize) -> Batches<B> {
        let mut alone = self.writer.clone();
        self.statements.observe(&mut alone);
        Batches::new(self.lane(name, Use::BatchedWrites).unwrap_or_else(|| alone.clone()), alone, slots)
    }

    /// Makes connections for one kind of batched call, on PostgreSQL.
    fn lane(&mut self, name: &'static str, of: Use) -> Option<Connections> {
        let mut lane = postgres::lane(self.address.as_ref()?, &self.reader, of, &self.health);
        self.statements.observe(&mut lane);
        Arc::make_mut(&mut self.lanes).push((name, lane.clone()));
        Some(lane)
    }

    /// Returns the kind of database.
    #[must_use]
    pub fn backend(&self) -> DbBackend {
        self.writer.backend()
    }

    /// Returns the metrics of statements, of the use of connections and of replicas.
    #[must_use]
    pub fn metrics(&self) -> Collectors {
        let mut metrics = self.statements.collectors();
        metrics.extend([self.pool_metrics(), self.replicas.metrics()]);
        metrics
    }

    /// Closes every connection once the calls in flight are done, or after 5 s. The writer is closed last,
    /// since it checkpoints a SQLite file.
    #[must_use]
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

    /// Checks the replicas every second, and the file of a SQLite database four times a second. Never ends.
    pub async fn watch(&self) -> Infallible {
        tokio::select! {
            never = self.watch_replicas() => never,
            never = self.watch_file() => never,
        }
    }

    /// Compares the file of a SQLite database with the one at its path, four times a second, and refuses all
    /// calls once it was replaced or removed: writes acknowledged after that would be missing at the next
    /// start. Never returns.
    async fn watch_file(&self) -> Infallible {
        if self.health.path().is_some() {
            let mut ticks = time::interval(Duration::from_millis(250));
            ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
            while self.health.is_file_in_place().await {
                ticks.tick().await;
            }
            self.give_up_file().await;
            self.close_connections().await;
        }
        std::future::pending().await
    }

    /// Refuses all calls from now on. Moves acknowledged writes from the write-ahead log into the open file,
    /// wherever that is now: SQLite would apply a remaining log to the file that replaced it.
    async fn give_up_file(&self) {
        let Some(path) = self.health.path() else { return };
        self.health.give_up_file();
        let path = path.display();
        tracing::error!(
            "{path} was replaced or removed while the service runs; all requests are refused. Stop the \
             service, put the right file in its place, and start it again. What was acknowledged until now \
             is in the file that was there before"
        );
        if let Err(error) = sqlite::empty_log(&self.writer).await {
            tracing::error!(%error, "the old file's log was not emptied: remove {path}-wal");
        }
    }

    /// Returns `true` if the file of a SQLite database was replaced or removed while it was open. Every call
    /// is refused then.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.health.is_replaced()
    }

    /// Returns the fault of the database: whether it answers a read within a second, and what its connections
    /// have found.
    pub async fn fault(&self) -> Option<Fault> {
        let is_read = matches!(time::timeout(PING_TIMEOUT, self.ping()).await, Ok(Ok(())));
        let cause = if self.health.is_replaced() {
            FaultCause::DatabaseFileReplaced
        } else if self.health.is_damaged() {
            FaultCause::DatabaseDamaged
        } else if is_read {
            self.health.write_fault()?
        } else {
            FaultCause::DatabaseUnreachable
        };
        Some(Fault::new(if is_read { PartState::Degraded } else { PartState::Down }, cause))
    }

    /// Returns `true` if the database answers reads, and takes no writes.
    #[must_use]
    pub fn takes_no_writes(&self) -> bool {
        self.health.write_fault().is_some()
    }

    /// Notices whether the database takes writes, without a write of a client. On PostgreSQL this asks for a
    /// write that changes no row. After a failed write, on either database, it writes one row until that
    /// succeeds.
    pub async fn check_writes(&self) {
        let sql = if self.takes_no_writes() {
            "UPDATE revision SET value = value WHERE id = 1"
        } else if self.writer.backend() == DbBackend::Postgres {
            "UPDATE revision SET value = value WHERE FALSE"
        } else {
            return;
        };
        let statement = Statement::from_string(self.writer.backend(), sql);
        let written = self.within(async { Ok::<_, DatabaseError>(self.writer.query(statement).await?) });
        if written.await.is_ok() {
            self.health.record_write();
        }
    }

    /// Runs a query that the database can only answer by reading.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Unavailable`] if it does not answer.
    #[must_use]
    pub fn ping(&self) -> BoxFuture<'_, Result<(), DatabaseError>> {
        Box::pin(async move { self.all(revision::row()).await.map(drop) })
    }

    /// Returns the result of work in an exclusive transaction. A transaction that read first and locked later
    /// could fail half-way, or decide on stale data. On SQLite it holds the write lock, on PostgreSQL the
    /// lock of the [revision's row](revision). It is committed if the result is `Ok`.
    ///
    /// # Errors
    ///
    /// The error of the work, or of the database.
    pub async fn transaction<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + From<DatabaseError> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        self.transaction_beside_others(|session| {
            Box::pin(async move {
                if session.get_database_backend() == DbBackend::Postgres {
                    revision::row().lock_exclusive().all(session).await?;
                }
                work(session).await
            })
        })
        .await
    }

    /// Returns the result of work in a transaction that may run concurrently with others on PostgreSQL: for
    /// work that decides nothing by rows that others change.
    ///
    /// # Errors
    ///
    /// The error of the work, or of the database.
    pub async fn transaction_beside_others<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + From<DatabaseError> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        self.within(self.writer.transaction(work)).await
    }

    /// Returns the result of a read. It is retried once if the connection was lost.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn read<T, F>(&self, query: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c Session) -> BoxFuture<'c, Result<T, DbErr>> + Clone + Send + 'static,
    {
        self.retry_read(|| self.reader.read(query.clone())).await
    }

    /// Adds rows, all or none. It is one statement, on PostgreSQL in one round trip. Returns the rows as the
    /// database stored them, in no particular order.
    ///
    /// # Errors
    ///
    /// If the database fails, or refuses a row.
    pub async fn insert_rows<A>(&self, rows: Vec<A>) -> Result<Vec<ModelOf<A>>, DatabaseError>
    where
        A: ActiveModelTrait + Send + 'static,
        ModelOf<A>: IntoActiveModel<A> + Send,
    {
        let insert = A::Entity::insert_many(rows);
        self.within(async {
            if self.writer.backend() == DbBackend::Postgres {
                let columns = <A::Entity as EntityTrait>::Column::iter().map(Expr::col);
                let returning = Query::returning().exprs(columns);
                let statement = DbBackend::Postgres.build(insert.into_query().returning(returning));
                let rows = self.writer.query(statement).await?;
                Ok(rows
                    .iter()
                    .map(|row| ModelOf::<A>::from_query_result(row, ""))
                    .collect::<Result<_, _>>()?)
            } else {
                let inserted =
                    self.writer.transaction(|transaction| Box::pin(insert.exec_with_returning(transaction)));
                Ok(inserted.await?)
            }
        })
        .await
    }

    /// Returns the rows that the query finds.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn all<E>(&self, find: Select<E>) -> Result<Vec<E::Model>, DatabaseError>
    where
        E: EntityTrait<Model: Send>,
    {
        self.read(move |db| Box::pin(find.clone().all(db))).await
    }

    /// Returns the rows of a query that no entity describes.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn rows(&self, query: SelectStatement) -> Result<Vec<QueryResult>, DatabaseError> {
        self.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await
    }

    /// Returns the rows that the query finds before a position, newest first: one more than `size`, if there
    /// is one. The first page includes the total.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn page<E>(
        &self,
        find: Select<E>,
        id: E::Column,
        before: Option<i64>,
        size: usize,
    ) -> Result<(Vec<E::Model>, Option<i64>), DatabaseError>
    where
        E: EntityTrait<Model: FromQueryResult + Send + Sync>,
    {
        let total = if before.is_none() { Some(self.count(find.clone()).await?) } else { None };
        let before = Condition::all().add_option(before.map(|before| id.lt(before)));
        let find = find.filter(before).order_by_desc(id).limit(size as u64 + 1);
        Ok((self.all(find).await?, total))
    }

    /// Returns the number of rows that the query finds.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn count<E>(&self, find: Select<E>) -> Result<i64, DatabaseError>
    where
        E: EntityTrait<Model: FromQueryResult + Send + Sync>,
    {
        let rows = self.read(move |db| Box::pin(PaginatorTrait::count(find.clone(), db))).await?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// Returns the primary's answer to a call that reads. It is retried once if the connection was lost.
    ///
    /// # Errors
    ///
    /// If the call was not answered.
    pub async fn ask<B: Batched>(
        &self,
        reads: &BatchedReads<B>,
        call: B::Call,
    ) -> Result<B::Answer, DatabaseError> {
        self.retry_read(|| reads.ask_primary(call.clone())).await
    }

    /// Returns the result of any read, with the same retry.
    async fn retry_read<T, F>(&self, read: impl Fn() -> F) -> Result<T, DatabaseError>
    where
        F: Future<Output = Result<T, DbErr>>,
    {
        self.within(async {
            match read().await {
                Err(error) if fault::is_passing(&error) => Ok(read().await?),
                result => Ok(result?),
            }
        })
        .await
    }

    /// Returns the work's result, or [`DatabaseError::Unavailable`] if it takes too long; the database then
    /// still finishes it or rolls it back. Every call to the database goes through here.
    ///
    /// # Errors
    ///
    /// The error of the work, or that it takes too long.
    pub async fn within<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E>
    where
        E: From<DatabaseError>,
    {
        if self.health.is_replaced() {
            let cause = "the store's file was replaced or removed while the service runs";
            return Err(DatabaseError::Unavailable(cause.into()).into());
        }
        match time::timeout(self.deadline, work).await {
            Ok(result) => result,
            Err(elapsed) => {
                self.writer.mark_stale();
                Err(DatabaseError::Unavailable(elapsed.into()).into())
            }
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
