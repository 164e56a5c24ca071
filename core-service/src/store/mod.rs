//! The database. The only place that names `SeaORM`.
//!
//! On SQLite the store has one connection that writes (SQLite has one writer at a time anyway) and four that only
//! read, in WAL mode, so that reads go on while a write waits. A write is on the disk before it is acknowledged
//! (`synchronous = FULL`): it survives a power cut. On PostgreSQL it has one pool for both, and its server decides
//! what an acknowledged write survives (`synchronous_commit`). Nothing waits for ever: not for a connection, not
//! for a lock, not for an answer.

use std::{fmt, sync::Arc, time::Duration};

use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, EntityTrait,
    QueryFilter, QuerySelect, SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use tokio::time;

use crate::domain::PetStoreError;

mod accounts;
mod bans;
mod bulk;
mod changes;
mod create_requests;
mod entity;
mod fault;
mod keys;
mod metrics;
mod open;
mod orders;
mod pets;
mod postgres;
mod replicas;
mod resolution;
mod running;
pub mod schema;
mod sqlite;
mod usage;

pub use open::{OpenError, OpenOptions};
pub use postgres::PostgresAddress;

pub(crate) use keys::NewApiKey;
pub(crate) use metrics::StatementMetrics;
pub(crate) use resolution::ResolvedKey;

use postgres::Suspicion;
use replicas::Replicas;
use running::Running;

/// How long a call to SQLite may take, whatever its caller is ready to wait for: longer than the waits for a
/// connection (1 s) and for the write lock (2 s) together.
const SQLITE_DEADLINE: Duration = Duration::from_secs(4);
/// How long a call to PostgreSQL may take. The server's own limits do not hold while it is frozen or cut off, and
/// callers should learn of that soon.
const POSTGRES_DEADLINE: Duration = Duration::from_millis(1_400);
/// How long closing may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// The database. Clones share the connections.
#[derive(Clone)]
pub struct Store {
    writer: DatabaseConnection,
    reader: DatabaseConnection,
    deadline: Duration,
    suspicion: Arc<Suspicion>,
    running: Running,
    replicas: Replicas,
}

impl Store {
    fn on_sqlite(writer: DatabaseConnection, reader: DatabaseConnection) -> Self {
        Self {
            writer,
            reader,
            deadline: SQLITE_DEADLINE,
            suspicion: Arc::new(Suspicion::none()),
            running: Running::default(),
            replicas: Replicas::default(),
        }
    }

    fn on_postgres(pool: DatabaseConnection, suspicion: Arc<Suspicion>) -> Self {
        Self {
            writer: pool.clone(),
            reader: pool,
            deadline: POSTGRES_DEADLINE,
            suspicion,
            running: Running::default(),
            replicas: Replicas::default(),
        }
    }

    /// Closes every connection, once the calls under way are done, or after 5 s. The writer goes last, since it
    /// tidies a file up.
    pub async fn close(self) {
        let closing = async {
            self.replicas.close().await;
            for connections in [self.reader, self.writer] {
                if let Err(error) = connections.close().await {
                    tracing::warn!(cause = %error, "the store could not be closed");
                }
            }
        };
        if time::timeout(CLOSE_DEADLINE, closing).await.is_err() {
            tracing::warn!("the store was still at work when it had to be closed");
        }
    }

    /// Asks the database something that it can only answer by reading.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Unavailable`] if it does not answer.
    pub async fn ping(&self) -> Result<(), PetStoreError> {
        let revision = entity::revision::Entity::find().filter(entity::revision::Column::Id.eq(1));
        self.read(|| revision.clone().all(&self.reader)).await.map(drop)
    }

    /// Begins a transaction that no other of its kind runs beside: one that read first and asked for a lock later
    /// could fail half-way, or decide on what has changed meanwhile. On SQLite it holds the write lock, on
    /// PostgreSQL the lock of the revision's row.
    async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        let transaction = self.begin_beside_others().await?;
        if transaction.get_database_backend() == DbBackend::Postgres {
            let revision = entity::revision::Entity::find().filter(entity::revision::Column::Id.eq(1));
            revision.lock_exclusive().all(&transaction).await?;
        }
        Ok(transaction)
    }

    /// Begins a transaction that others may run beside on PostgreSQL: for one that only inserts.
    async fn begin_beside_others(&self) -> Result<DatabaseTransaction, DbErr> {
        self.writer.begin_with_options(immediate()).await
    }

    /// The result of a statement that changes nothing. It is tried once more if the connection was lost.
    async fn read<T, F>(&self, query: impl Fn() -> F) -> Result<T, PetStoreError>
    where
        F: Future<Output = Result<T, DbErr>>,
    {
        self.within(async {
            match query().await {
                Err(error) if self.may_pass(&error) => Ok(query().await?),
                result => Ok(result?),
            }
        })
        .await
    }

    /// Whether trying again may succeed. Takes note that connections are being lost.
    fn may_pass(&self, error: &DbErr) -> bool {
        let may_pass = fault::is_passing(error);
        if may_pass {
            self.suspicion.raise();
        }
        may_pass
    }

    /// The work's result, or [`PetStoreError::Unavailable`] if it takes too long. Every call to the database goes
    /// through here.
    async fn within<T, E: From<PetStoreError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match time::timeout(self.deadline, work).await {
            Ok(result) => result,
            Err(elapsed) => {
                self.suspicion.raise();
                Err(PetStoreError::Unavailable(elapsed.into()).into())
            }
        }
    }
}

fn immediate() -> TransactionOptions {
    TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    }
}

/// Shows nothing of where the database is: an address may hold a password.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod flat_cost;
#[cfg(test)]
mod plans;
#[cfg(test)]
pub(crate) mod test_support;
