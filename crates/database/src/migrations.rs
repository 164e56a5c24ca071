//! Changes of a schema.
//!
//! Each change runs on both SQLite and PostgreSQL. [`up`] applies each in a separate transaction, under the
//! database's write lock. Any number of processes may start on one database at once, and a killed process
//! leaves no change half done.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
    sea_query::{Alias, Expr, ExprTrait, Query},
};

/// Text between the name of a change that removes something and the release from which that is unused, such
/// as `1_2_0`.
const UNUSED_SINCE: &str = "_unused_since_";

/// Work on the schema within a transaction.
type Work = for<'a> fn(&'a DatabaseTransaction) -> BoxFuture<'a, Result<(), DbErr>>;

/// The schema of a program. It has the table [`revision`](crate::revision), with its row.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Every change, oldest first. A change that was published is never edited.
    pub changes: &'static [SchemaChange],
    /// Name of the program, for errors. Its command `migrate up` applies pending changes.
    pub program: &'static str,
    /// Release of the program, such as `1.2.0`.
    pub release: &'static str,
    /// Advisory lock that serializes migrating processes on PostgreSQL: any unused number.
    pub advisory_lock: i64,
    /// Change of earlier builds whose data cannot be migrated, and the end of a sentence about such a
    /// database that says what to do.
    pub discontinued: Option<(&'static str, &'static str)>,
}

/// Change of a schema.
#[derive(Clone, Copy, Debug)]
pub struct SchemaChange {
    /// Name, such as `m0002_tags`. The name of a change that removes something ends with the release from
    /// which that is unused: `m0003_drop_tags_unused_since_1_2_0`.
    pub name: &'static str,
    /// Makes the change.
    pub up: Work,
    /// Reverts it, with the data in it.
    pub down: Work,
}

/// One change of the schema, and its state in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Name of the change, which determines its order.
    pub name: String,
    /// State of the change in the database.
    pub state: MigrationState,
}

/// State of a change in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// The database has the change.
    Applied,
    /// The database does not have the change yet.
    Pending,
    /// The database has the change, but this binary does not know it: the schema is newer than the binary.
    Unknown,
}

/// Returns every change that the binary or the database knows, oldest first. Writes nothing.
pub(super) async fn status(db: &DatabaseConnection, schema: &Schema) -> Result<Vec<Migration>, DbErr> {
    let applied = applied(db).await?;
    let known = schema.changes.iter().map(|change| {
        let is_applied = applied.iter().any(|name| name == change.name);
        let state = if is_applied { MigrationState::Applied } else { MigrationState::Pending };
        Migration { name: change.name.to_owned(), state }
    });
    let unknown = applied.iter().filter(|name| schema.find(name).is_none());
    let unknown = unknown.map(|name| Migration { name: name.clone(), state: MigrationState::Unknown });
    Ok(known.chain(unknown).collect())
}

impl Schema {
    /// Returns `true` if this release can use a schema with a change of a newer release: one that only adds,
    /// or removes what this release no longer uses. The change's name says so.
    pub(super) fn suits(&self, change: &str) -> bool {
        let numbers = |version: &str, separator| -> Option<Vec<u32>> {
            version.split(separator).map(|number| number.parse().ok()).collect()
        };
        match change.split_once(UNUSED_SINCE) {
            None => true,
            Some((_, release)) => {
                numbers(release, '_').is_some_and(|since| Some(since) <= numbers(self.release, '.'))
            }
        }
    }

    /// Returns the changes with these names.
    ///
    /// # Errors
    ///
    /// If this binary does not know one of them.
    fn known(&self, names: Vec<String>) -> Result<Vec<&'static SchemaChange>, DbErr> {
        let unknown = |name| {
            DbErr::Migration(format!("the change {name} belongs to another version of {}", self.program))
        };
        names.into_iter().map(|name| self.find(&name).ok_or_else(|| unknown(name))).collect()
    }

    fn find(&self, name: &str) -> Option<&'static SchemaChange> {
        self.changes.iter().find(|change| change.name == name)
    }
}

/// Applies the pending changes one by one. Does nothing, and takes no lock, if there are none. A change that
/// fails is undone, and those before it stay applied.
pub(super) async fn up(db: &DatabaseConnection, schema: &Schema) -> Result<(), DbErr> {
    while status(db, schema).await?.iter().any(|migration| migration.state == MigrationState::Pending) {
        let transaction = begin_alone(db, schema).await?;
        let result = apply_next(&transaction, schema).await;
        end(transaction, result).await?;
    }
    Ok(())
}

/// Applies the oldest pending change, if no other process has done so. Changes of a newer binary are refused.
async fn apply_next(db: &DatabaseTransaction, schema: &Schema) -> Result<(), DbErr> {
    let record = "CREATE TABLE IF NOT EXISTS seaql_migrations (version varchar NOT NULL PRIMARY KEY, \
                  applied_at bigint NOT NULL)";
    db.execute_unprepared(record).await?;
    let applied = schema.known(applied(db).await?)?;
    let is_pending = |change: &&SchemaChange| !applied.iter().any(|it| it.name == change.name);
    let Some(change) = schema.changes.iter().find(is_pending) else { return Ok(()) };
    (change.up)(db).await?;
    let now = match db.get_database_backend() {
        DbBackend::Sqlite => "unixepoch()",
        _ => "extract(epoch from now())::bigint",
    };
    let row = [change.name.into(), Expr::cust(now)];
    let insert = Query::insert()
        .into_table("seaql_migrations")
        .columns(["version", "applied_at"])
        .values_panic(row)
        .take();
    db.execute(&insert).await.map(drop)
}

/// Reverts the newest `steps` changes.
async fn revert(db: &DatabaseTransaction, schema: &Schema, steps: u32) -> Result<(), DbErr> {
    let applied = schema.known(applied(db).await?)?;
    for change in applied.into_iter().rev().take(usize::try_from(steps).unwrap_or(usize::MAX)) {
        (change.down)(db).await?;
        let row = Expr::col("version").eq(change.name);
        db.execute(&Query::delete().from_table("seaql_migrations").and_where(row).take()).await?;
    }
    Ok(())
}

/// Changes and data that a reversal would remove from a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    /// The changes, newest first.
    pub migrations: Vec<String>,
    /// Tables and columns that hold data at that time, by name.
    pub removed: Vec<Loss>,
}

/// A table, or a column of a table that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Name of the table.
    pub table: String,
    /// Name of the column, if the table stays.
    pub column: Option<String>,
    /// Number of rows in the table.
    pub rows: i64,
}

/// Returns the losses that [`down`] would cause. Changes nothing: the changes are tried on an empty database
/// in memory, and in this one only rows are counted.
pub(super) async fn losses(db: &DatabaseConnection, schema: &Schema, steps: u32) -> Result<Losses, DbErr> {
    let applied = schema.known(applied(db).await?)?;
    let trial =
        Database::connect(ConnectOptions::new("sqlite::memory:").max_connections(1).to_owned()).await?;
    for _ in &applied {
        let transaction = trial.begin().await?;
        apply_next(&transaction, schema).await?;
        transaction.commit().await?;
    }
    let before = columns(&trial).await?;
    down(&trial, schema, steps).await?;
    let after = columns(&trial).await?;
    trial.close().await?;

    let mut removed = Vec::new();
    for (table, columns) in before {
        let gone = match after.get(&table) {
            None => vec![None],
            Some(left) => columns.difference(left).cloned().map(Some).collect(),
        };
        if !gone.is_empty() {
            let rows = rows(db, &table).await?;
            removed.extend(gone.into_iter().map(|column| Loss { table: table.clone(), column, rows }));
        }
    }
    let steps = usize::try_from(steps).unwrap_or(usize::MAX);
    let migrations = applied.iter().rev().take(steps).map(|change| change.name.to_owned()).collect();
    Ok(Losses { migrations, removed })
}

/// Returns the tables of a SQLite database, and the columns of each.
async fn columns(db: &DatabaseConnection) -> Result<BTreeMap<String, BTreeSet<String>>, DbErr> {
    let query = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c \
                 WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
    let mut columns = BTreeMap::<String, BTreeSet<String>>::new();
    for row in db.query_all_raw(Statement::from_string(db.get_database_backend(), query)).await? {
        let (table, column) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        columns.entry(table).or_default().insert(column);
    }
    Ok(columns)
}

async fn rows(db: &DatabaseConnection, table: &str) -> Result<i64, DbErr> {
    let count = Query::select().expr(Expr::cust("COUNT(*)")).from(Alias::new(table)).to_owned();
    let row = db.query_one(&count).await?;
    row.map_or(Ok(0), |row| row.try_get_by_index(0))
}

/// Reverts the newest `steps` changes, with the data in them, all or none.
pub(super) async fn down(db: &DatabaseConnection, schema: &Schema, steps: u32) -> Result<(), DbErr> {
    let transaction = begin_alone(db, schema).await?;
    let result = revert(&transaction, schema, steps).await;
    end(transaction, result).await
}

/// Commits if `result` is `Ok`. Otherwise rolls back now, not when the connection is used next, because the
/// transaction may hold locks.
async fn end(transaction: DatabaseTransaction, result: Result<(), DbErr>) -> Result<(), DbErr> {
    match result {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            let _ = transaction.rollback().await; // `error` is the cause
            Err(error)
        }
    }
}

/// Returns the options of transactions that on SQLite hold the write lock from their beginning.
pub(super) fn immediate() -> TransactionOptions {
    let sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
    TransactionOptions { sqlite_transaction_mode, ..TransactionOptions::default() }
}

/// Begins a transaction that waits for every other migrating process.
async fn begin_alone(db: &DatabaseConnection, schema: &Schema) -> Result<DatabaseTransaction, DbErr> {
    let transaction = db.begin_with_options(immediate()).await?;
    let backend = transaction.get_database_backend();
    if backend == DbBackend::Postgres {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        let lock = Statement::from_sql_and_values(backend, lock, [schema.advisory_lock.into()]);
        transaction.execute_raw(lock).await?;
    }
    Ok(transaction)
}

/// Returns the names of the applied changes, oldest first.
async fn applied(db: &impl ConnectionTrait) -> Result<Vec<String>, DbErr> {
    let backend = db.get_database_backend();
    let is_there = match backend {
        DbBackend::Sqlite => "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'seaql_migrations')",
        _ => "SELECT to_regclass('seaql_migrations') IS NOT NULL",
    };
    let row = db.query_one_raw(Statement::from_string(backend, is_there)).await?;
    if !row.map_or(Ok(false), |row| row.try_get_by_index(0))? {
        return Ok(Vec::new());
    }
    let names = Statement::from_string(backend, "SELECT version FROM seaql_migrations ORDER BY version");
    db.query_all_raw(names).await?.iter().map(|row| row.try_get_by_index(0)).collect()
}

#[cfg(test)]
mod postgres_tests;
#[cfg(test)]
mod tests;
