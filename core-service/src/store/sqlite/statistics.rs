//! Statistics that SQLite's planner goes by: the store has none.
//!
//! They are never brought up to date by themselves. Statistics of a table that was small when it was analysed
//! say for ever that it is small, and then the planner reads all of it where the key would lead to the row:
//! pages cost more and more with their depth. Without statistics it takes every table to be large, which
//! every statement of the store is made for.

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, TransactionTrait};

use super::immediate;

/// Removes what `ANALYZE` and `PRAGMA optimize` have left. To drop the tables and not only their rows changes
/// the schema, from which every connection that is open, of any process, learns of it.
pub(super) async fn remove(writer: &DatabaseConnection) -> Result<(), DbErr> {
    let find =
        "SELECT name FROM sqlite_schema WHERE name IN ('sqlite_stat1', 'sqlite_stat3', 'sqlite_stat4')";
    if writer.query_all_raw(Statement::from_string(DbBackend::Sqlite, find)).await?.is_empty() {
        return Ok(()); // without the lock
    }
    let transaction = writer.begin_with_options(immediate()).await?;
    for table in ["sqlite_stat1", "sqlite_stat3", "sqlite_stat4"] {
        transaction.execute_unprepared(&format!("DROP TABLE IF EXISTS {table}")).await?;
    }
    transaction.commit().await
}
