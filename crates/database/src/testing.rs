//! Methods with which tests send any statement, past all guarantees, and observe those that are sent.

use std::sync::Arc;

use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, SqliteTransactionMode,
    Statement, TransactionOptions, TransactionTrait, metric, prelude::async_trait,
};

use crate::{Batched, BatchedReads, Batches, Database, DatabaseUrl};

pub use crate::connection::Connections;

/// Number of connections of a SQLite database that only read.
pub const READERS: usize = crate::sqlite::READERS;

/// Callback that runs after each statement.
pub type Observe = Arc<dyn Fn(&metric::Info<'_>) + Send + Sync>;

impl Database {
    /// Returns the connections that write.
    pub fn writer(&self) -> &Connections {
        &self.writer
    }

    /// Returns the connections that only read.
    pub fn reader(&self) -> &Connections {
        &self.reader
    }

    /// Returns the number of replicas that are in use.
    pub fn usable_replicas(&self) -> usize {
        self.replicas.usable()
    }

    /// Calls the function after each statement that is sent through this handle.
    pub fn observe(&mut self, observe: &Observe) {
        self.writer.observe(Arc::clone(observe));
        self.reader.observe(Arc::clone(observe));
    }
}

/// Begins a transaction of another process. On SQLite it holds the write lock.
///
/// # Errors
///
/// If the database does not answer.
pub async fn foreign_transaction(url: &DatabaseUrl) -> Result<DatabaseTransaction, DbErr> {
    let url = match url {
        DatabaseUrl::Sqlite(path) => format!("sqlite://{}", path.display()),
        DatabaseUrl::Postgres(address) => {
            format!("postgres://postgres@{}/{}", address.host(), address.database())
        }
    };
    let options = TransactionOptions {
        sqlite_transaction_mode: url.starts_with("sqlite").then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    sea_orm::Database::connect(url).await?.begin_with_options(options).await
}

impl<B: Batched> Batches<B> {
    /// Returns the connections of the batches.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Calls the function after each statement that is sent through this handle.
    pub fn observe(&mut self, observe: &Observe) {
        self.connections.observe(Arc::clone(observe));
        self.alone.observe(Arc::clone(observe));
    }
}

impl<B: Batched> BatchedReads<B> {
    /// Returns the batches of the primary.
    pub fn primary(&mut self) -> &mut Batches<B> {
        &mut self.primary
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Connections {
    fn get_database_backend(&self) -> DbBackend {
        self.backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.submit(|session| session.execute_raw(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = sql.to_owned();
        self.submit(|session| Box::pin(async move { session.execute_unprepared(&sql).await })).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.submit(|session| session.query_one_raw(statement)).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.submit(|session| session.query_all_raw(statement)).await
    }
}
