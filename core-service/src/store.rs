//! The database. Only this module uses `SeaORM`.
//!
//! On SQLite the store has one connection that writes (SQLite has one writer at a time anyway) and four that
//! only read, in WAL mode, so that reads continue while a write waits. A write is on disk before it is
//! acknowledged (`synchronous = FULL`): it survives a power cut. On PostgreSQL five connections write, five
//! only read, which the server enforces, and six more serve batched calls; the server decides what an
//! acknowledged write survives (`synchronous_commit`). Each `connection` has one owner, which finishes what
//! it began even if its caller gives up. Every wait is bounded: for a connection, for a lock, and for an
//! answer.
//!
//! Most calls read single pets or pages, or create pets. Waiting calls of these kinds are batched into one
//! statement or one transaction (`connection::batches`).

use std::{convert::Infallible, fmt, time::Duration};

use futures_util::future::BoxFuture;
use moka::sync::Cache;
use petstore_telemetry::parts::{Fault, FaultCause, PartState};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait,
    FromQueryResult, IntoActiveModel, Iterable, PaginatorTrait, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait, Select, Statement,
    sea_query::{Expr, Query, SelectStatement},
};
use tokio::time;

use crate::domain::{PageSize, Pet, PetStoreError};

mod accounts;
mod audit;
pub mod backup;
mod bans;
mod changes;
mod connection;
mod creations;
mod database_url;
mod entity;
mod fault;
mod health;
mod imports;
mod keys;
mod metrics;
mod open;
mod operator_sessions;
mod operators;
mod orders;
mod pets;
mod postgres;
mod refusals;
mod replicas;
pub mod schema;
mod sqlite;
mod usage;

pub use database_url::{DatabaseUrl, DatabaseUrlError, PostgresAddress};
pub use open::{OpenError, OpenOptions};

pub(crate) use entity::ban::ban_message;
pub(crate) use metrics::StatementMetrics;
pub(crate) use usage::MinutesOf;

use changes::Answered;
use connection::{Connections, Session};
use health::Health;
use pets::{PetCreates, PetReads};
use replicas::Replicas;

/// Timeout of a ping. A database that takes longer to answer is down.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(1);

type ModelOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Model;

/// The database. Clones share the connections.
#[derive(Clone)]
pub struct Store {
    writer: Connections,
    reader: Connections,
    /// The pets that were read last, up to a fixed number.
    ///
    /// A pet stays for a minute: nothing changes it, but a server that took over from a lost one may lack the
    /// newest pets, and a database may be restored from a copy while cores run.
    ///
    /// The absence of a pet is never cached: the pet may be added at any time. An operation that changes pets
    /// has to update this cache, and to invalidate the caches of other cores.
    pet_cache: Option<Cache<i64, Pet>>,
    pet_reads: PetReads,
    creates: PetCreates,
    /// Deadline of a call, even if its caller would wait longer.
    deadline: Duration,
    replicas: Replicas,
    health: Health,
    answered: Answered,
}

impl Store {
    /// Opens the store. Never replaces a file that is damaged. Any number of processes may open and migrate
    /// one store at once: one migrates, the others wait.
    ///
    /// # Errors
    ///
    /// If the store cannot be opened.
    #[must_use]
    pub fn open(url: &DatabaseUrl, options: OpenOptions) -> BoxFuture<'_, Result<Self, OpenError>> {
        Box::pin(async move {
            // Boxed, too: each is many futures deep, and their types would grow past the compiler's bounds.
            match url {
                DatabaseUrl::Sqlite(path) => Box::pin(sqlite::open(url, path, options)).await,
                DatabaseUrl::Postgres(address) => Box::pin(postgres::open(url, address, options)).await,
            }
        })
    }

    /// Returns the store with a cache of the `pets` pets that were read last, for a minute each. By default,
    /// and for 0, there is no cache.
    #[must_use]
    pub fn with_pet_cache(self, pets: u32) -> Self {
        let cache =
            || Cache::builder().max_capacity(pets.into()).time_to_live(Duration::from_mins(1)).build();
        Self { pet_cache: (pets > 0).then(cache), ..self }
    }

    fn new(
        writer: Connections,
        reader: Connections,
        pet_reads: PetReads,
        creates: PetCreates,
        deadline: Duration,
        health: Health,
    ) -> Self {
        Self {
            writer,
            reader,
            pet_cache: None,
            pet_reads,
            creates,
            deadline,
            replicas: Replicas::default(),
            health,
            answered: Answered::default(),
        }
    }

    /// Returns every handle to connections, for setup before their first use.
    fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connections> {
        let Self { writer, reader, pet_reads, creates, replicas, .. } = self;
        [writer, reader]
            .into_iter()
            .chain(pet_reads.connections_mut())
            .chain(creates.connections_mut())
            .chain(replicas.connections_mut())
    }

    /// Closes every connection once the calls in flight are done, or after 5 s. The writer is closed last,
    /// since it checkpoints a SQLite file.
    #[must_use]
    pub fn close(self) -> BoxFuture<'static, ()> {
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
            self.pet_reads.close().await;
            self.reader.close().await;
            self.creates.connections().close().await;
            self.writer.close().await;
        };
        if time::timeout(Duration::from_secs(5), closing).await.is_err() {
            tracing::warn!("closed the store while statements were in flight");
        }
    }

    /// Compares the file of a SQLite store with the one at its path, four times a second, and refuses all
    /// calls once it was replaced or removed: writes acknowledged after that would be missing at the next
    /// start. Never returns.
    pub(crate) async fn watch_file(&self) -> Infallible {
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
    pub(crate) fn takes_no_writes(&self) -> bool {
        self.health.write_fault().is_some()
    }

    /// Notices whether the database takes writes, without a write of a client. On PostgreSQL this asks for a
    /// write that changes no row. After a failed write, on either database, it writes one row until that
    /// succeeds.
    pub(crate) async fn check_writes(&self) {
        let sql = if self.takes_no_writes() {
            "UPDATE revision SET value = value WHERE id = 1"
        } else if self.writer.backend() == DbBackend::Postgres {
            "UPDATE revision SET value = value WHERE FALSE"
        } else {
            return;
        };
        let statement = Statement::from_string(self.writer.backend(), sql);
        if self.within(async { Ok(self.writer.query(statement).await?) }).await.is_ok() {
            self.health.record_write();
        }
    }

    /// Runs a query that the database can only answer by reading.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Unavailable`] if it does not answer.
    #[must_use]
    pub fn ping(&self) -> BoxFuture<'_, Result<(), PetStoreError>> {
        Box::pin(async move {
            let revision = entity::revision::Entity::find().filter(entity::revision::Column::Id.eq(1));
            self.all(revision).await.map(drop)
        })
    }

    /// Returns the name that the store was given when it was created, or when it was migrated to the first
    /// release that names stores. A copy of the database has the same name.
    pub(crate) async fn installation(&self) -> Result<String, PetStoreError> {
        let find = entity::installation::Entity::find().filter(entity::installation::Column::Id.eq(1));
        let row = self.all(find).await?.pop();
        row.map(|row| row.name).ok_or_else(|| PetStoreError::Bug("the installation has no name".into()))
    }

    /// Returns the result of work in an exclusive transaction. A transaction that read first and locked later
    /// could fail half-way, or decide on stale data. On SQLite it holds the write lock, on PostgreSQL the
    /// lock of the revision's row. It is committed if the result is `Ok`.
    async fn transaction<T, F>(&self, work: F) -> Result<T, PetStoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, PetStoreError>> + Send + 'static,
    {
        self.transaction_beside_others(|session| {
            Box::pin(async move {
                if session.get_database_backend() == DbBackend::Postgres {
                    let revision =
                        entity::revision::Entity::find().filter(entity::revision::Column::Id.eq(1));
                    revision.lock_exclusive().all(session).await?;
                }
                work(session).await
            })
        })
        .await
    }

    /// Returns the result of work in a transaction that may run concurrently with others on PostgreSQL: for
    /// work that decides nothing by rows that others change.
    async fn transaction_beside_others<T, F>(&self, work: F) -> Result<T, PetStoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, PetStoreError>> + Send + 'static,
    {
        self.within(self.writer.transaction(work)).await
    }

    /// Returns the result of a read. It is retried once if the connection was lost.
    async fn read<T, F>(&self, query: F) -> Result<T, PetStoreError>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c Session) -> BoxFuture<'c, Result<T, DbErr>> + Clone + Send + 'static,
    {
        self.retry_read(|| self.reader.read(query.clone())).await
    }

    /// Adds rows, all or none. It is one statement, on PostgreSQL in one round trip. Returns the rows as the
    /// database stored them, in no particular order.
    pub(super) async fn insert_rows<A>(&self, rows: Vec<A>) -> Result<Vec<ModelOf<A>>, DbErr>
    where
        A: ActiveModelTrait + Send + 'static,
        ModelOf<A>: IntoActiveModel<A> + Send,
    {
        let insert = A::Entity::insert_many(rows);
        if self.writer.backend() == DbBackend::Postgres {
            let columns = <A::Entity as EntityTrait>::Column::iter().map(Expr::col);
            let returning = Query::returning().exprs(columns);
            let statement = DbBackend::Postgres.build(insert.into_query().returning(returning));
            let rows = self.writer.query(statement).await?;
            rows.iter().map(|row| ModelOf::<A>::from_query_result(row, "")).collect()
        } else {
            self.writer.transaction(|transaction| Box::pin(insert.exec_with_returning(transaction))).await
        }
    }

    /// Returns the rows that the query finds.
    async fn all<E>(&self, find: Select<E>) -> Result<Vec<E::Model>, PetStoreError>
    where
        E: EntityTrait<Model: Send>,
    {
        self.read(move |db| Box::pin(find.clone().all(db))).await
    }

    /// Returns the rows of a query that no entity describes.
    async fn rows(&self, query: SelectStatement) -> Result<Vec<QueryResult>, PetStoreError> {
        self.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await
    }

    /// Returns the rows that the query finds before a position, newest first: one more than a page has, if
    /// there is one. The first page includes the total.
    async fn page<E>(
        &self,
        find: Select<E>,
        id: E::Column,
        before: Option<i64>,
        size: PageSize,
    ) -> Result<(Vec<E::Model>, Option<i64>), PetStoreError>
    where
        E: EntityTrait<Model: FromQueryResult + Send + Sync>,
    {
        let total = if before.is_none() { Some(self.count(find.clone()).await?) } else { None };
        let before = Condition::all().add_option(before.map(|before| id.lt(before)));
        let find = find.filter(before).order_by_desc(id).limit(size.get() as u64 + 1);
        Ok((self.all(find).await?, total))
    }

    /// Returns the number of rows that the query finds.
    async fn count<E>(&self, find: Select<E>) -> Result<i64, PetStoreError>
    where
        E: EntityTrait<Model: FromQueryResult + Send + Sync>,
    {
        let rows = self.read(move |db| Box::pin(PaginatorTrait::count(find.clone(), db))).await?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// Returns the result of any read, with the same retry.
    async fn retry_read<T, F>(&self, read: impl Fn() -> F) -> Result<T, PetStoreError>
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

    /// Returns the work's result, or [`PetStoreError::Unavailable`] if it takes too long; the database then
    /// still finishes it or rolls it back. Every call to the database goes through here.
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, PetStoreError>>,
    ) -> Result<T, PetStoreError> {
        if self.health.is_replaced() {
            let cause = "the store's file was replaced or removed while the service runs";
            return Err(PetStoreError::Unavailable(cause.into()));
        }
        match time::timeout(self.deadline, work).await {
            Ok(result) => result,
            Err(elapsed) => {
                self.writer.mark_stale();
                Err(PetStoreError::Unavailable(elapsed.into()))
            }
        }
    }
}

/// Omits the address of the database, which may hold a password.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod query_plan_tests;
#[cfg(test)]
mod scaling_tests;
#[cfg(test)]
pub(crate) mod test_support;
