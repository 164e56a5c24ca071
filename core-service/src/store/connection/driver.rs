//! A bare connection of either kind.

use sea_orm::{
    DbBackend, ExecResult, QueryResult, Statement,
    sea_query::Values,
    sqlx::{
        self, AssertSqlSafe, ConnectOptions, Connection, Executor,
        postgres::{PgConnectOptions, PgConnection},
        sqlite::{SqliteConnectOptions, SqliteConnection},
    },
};
use sea_query_sqlx::SqlxValues;

/// Target of a connection, with its options.
pub(in crate::store) enum Target {
    Postgres(Box<PgConnectOptions>),
    Sqlite(Box<SqliteConnectOptions>),
}

impl Target {
    pub(super) fn backend(&self) -> DbBackend {
        match self {
            Self::Postgres(_) => DbBackend::Postgres,
            Self::Sqlite(_) => DbBackend::Sqlite,
        }
    }

    pub(super) async fn connect(&self) -> Result<Driver, sqlx::Error> {
        Ok(match self {
            Self::Postgres(options) => Driver::Postgres(options.connect().await?),
            Self::Sqlite(options) => Driver::Sqlite(options.connect().await?),
        })
    }
}

/// A connection of sqlx, outside of any pool.
pub(in crate::store) enum Driver {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// Evaluates the expression for the connection of either kind.
macro_rules! on_either {
    ($driver:expr, $connection:ident => $result:expr) => {
        match $driver {
            Driver::Postgres($connection) => $result,
            Driver::Sqlite($connection) => $result,
        }
    };
}

impl Driver {
    pub(super) fn backend(&self) -> DbBackend {
        match self {
            Self::Postgres(_) => DbBackend::Postgres,
            Self::Sqlite(_) => DbBackend::Sqlite,
        }
    }

    /// Returns all rows. No method of sqlx that fetches only one row is used: on SQLite they reset the
    /// statement after the row, which commits it, and ignore the outcome.
    pub(super) async fn rows(&mut self, statement: &Statement) -> Result<Vec<QueryResult>, sqlx::Error> {
        let (sql, values) = parts(statement);
        on_either!(self, connection => {
            let rows = sqlx::query_with(sql, values).fetch_all(connection).await?;
            Ok(rows.into_iter().map(QueryResult::from).collect())
        })
    }

    pub(super) async fn execute(&mut self, statement: &Statement) -> Result<ExecResult, sqlx::Error> {
        let (sql, values) = parts(statement);
        on_either!(self, connection => Ok(sqlx::query_with(sql, values).execute(connection).await?.into()))
    }

    /// Sends a statement without preparing it.
    pub(super) async fn send(&mut self, sql: &str) -> Result<ExecResult, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        on_either!(self, connection => Ok(connection.execute(sql).await?.into()))
    }

    pub(super) async fn ping(&mut self) -> Result<(), sqlx::Error> {
        on_either!(self, connection => connection.ping().await)
    }

    pub(super) async fn close(self) -> Result<(), sqlx::Error> {
        on_either!(self, connection => connection.close().await)
    }
}

/// Returns the text and the values. All values are bound: the text holds placeholders.
fn parts(statement: &Statement) -> (AssertSqlSafe<&str>, SqlxValues) {
    let values = statement.values.clone().unwrap_or_else(|| Values(Vec::new()));
    (AssertSqlSafe(statement.sql.as_str()), SqlxValues(values))
}
