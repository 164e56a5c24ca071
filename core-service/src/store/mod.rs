//! The database. The only place that names `SeaORM`.
//!
//! On SQLite the store has one connection that writes (SQLite has one writer at a time anyway) and four that only
//! read, in WAL mode, so that reads go on while a write waits. A write is on the disk before it is acknowledged
//! (`synchronous = FULL`): it survives a power cut. Nothing waits for ever: not for a connection, not for a lock,
//! not for an answer.

use std::{fmt, time::Duration};

use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use tokio::time;

use crate::domain::PetStoreError;

mod accounts;
mod entity;
mod fault;
mod keys;
mod open;
mod pets;
mod resolution;
pub mod schema;
mod sqlite;

pub use open::{OpenError, OpenOptions};

pub(crate) use keys::NewApiKey;
pub(crate) use resolution::ResolvedKey;

/// How long a call to the database may take, whatever its caller is ready to wait for: longer than the waits for
/// a connection (1 s) and for the write lock (2 s) together.
const CALL_DEADLINE: Duration = Duration::from_secs(4);
/// How long closing may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// The database. Clones share the connections.
#[derive(Clone)]
pub struct Store {
    writer: DatabaseConnection,
    reader: DatabaseConnection,
}

impl Store {
    /// Closes every connection, once the calls under way are done, or after 5 s. The writer goes last, since it
    /// tidies the file up.
    pub async fn close(self) {
        let closing = async {
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
        one_statement(revision.all(&self.reader)).await.map(drop)
    }

    /// Begins a transaction that holds the write lock from its start: one that read first and asked for the lock
    /// later could fail half-way.
    async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        self.writer.begin_with_options(immediate()).await
    }
}

fn immediate() -> TransactionOptions {
    TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    }
}

/// The result of one statement.
async fn one_statement<T>(statement: impl Future<Output = Result<T, DbErr>>) -> Result<T, PetStoreError> {
    within(async { Ok(statement.await?) }).await
}

/// The work's result, or [`PetStoreError::Unavailable`] if it takes too long. Every call to the database goes
/// through here.
async fn within<T, E: From<PetStoreError>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match time::timeout(CALL_DEADLINE, work).await {
        Ok(result) => result,
        Err(elapsed) => Err(PetStoreError::Unavailable(elapsed.into()).into()),
    }
}

/// Shows nothing of where the database is: an address may hold a password.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod test_support;
