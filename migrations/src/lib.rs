//! The schema of the store, one change per file.
//!
//! The changes are written with the schema builder, so that they run on both SQLite and PostgreSQL. [`up`]
//! applies each in a separate transaction, under the database's write lock. Any number of processes may start
//! on one database at once, and a killed process leaves no change half done. `migrations/README.md` describes
//! what a change may do.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sea_orm_migration::{
    MigrationTrait, MigratorTrait, SchemaManager,
    sea_orm::{
        ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
        EntityName, EntityTrait, QueryOrder, SqliteTransactionMode, Statement, TransactionOptions,
        TransactionTrait,
        sea_query::{Alias, Expr, Query},
    },
    seaql_migrations,
};

mod m0001_baseline;

/// Advisory lock that serializes migrating processes on PostgreSQL. Any unused number would do: this is
/// "petstore" in ASCII.
const ADVISORY_LOCK: i64 = i64::from_be_bytes(*b"petstore");

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m0001_baseline::Migration)]
    }
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
///
/// # Errors
///
/// If the database fails.
pub async fn status(db: &DatabaseConnection) -> Result<Vec<Migration>, DbErr> {
    let applied = applied(db).await?;
    let known: Vec<String> =
        Migrator::migrations().iter().map(|migration| migration.name().to_owned()).collect();
    let unknown: Vec<String> = applied.iter().filter(|name| !known.contains(name)).cloned().collect();
    let applied: HashSet<String> = applied.into_iter().collect();

    let known = known.into_iter().map(|name| {
        let state = if applied.contains(&name) { MigrationState::Applied } else { MigrationState::Pending };
        Migration { name, state }
    });
    let unknown = unknown.into_iter().map(|name| Migration { name, state: MigrationState::Unknown });
    Ok(known.chain(unknown).collect())
}

/// Applies the pending changes one by one. Does nothing, and takes no lock, if there are none.
///
/// # Errors
///
/// If the database fails. The change that failed is then undone, and those before it are applied.
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    while status(db).await?.iter().any(|migration| migration.state == MigrationState::Pending) {
        let transaction = begin_alone(db).await?;
        // Reads the pending changes again, now that no other process can change them.
        let result = Migrator::up(&transaction, Some(1)).await;
        end(transaction, result).await?;
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
///
/// # Errors
///
/// If one of the databases fails.
pub async fn losses(db: &DatabaseConnection, steps: u32) -> Result<Losses, DbErr> {
    let applied = applied(db).await?;
    let trial =
        Database::connect(ConnectOptions::new("sqlite::memory:").max_connections(1).to_owned()).await?;
    let known = u32::try_from(applied.len()).unwrap_or(u32::MAX);
    Migrator::up(&trial, Some(known)).await?;
    let before = columns(&trial).await?;
    Migrator::down(&trial, Some(steps)).await?;
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
    Ok(Losses { migrations: applied.into_iter().rev().take(steps).collect(), removed })
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

/// Reverts the newest `steps` changes, with the data in them.
///
/// # Errors
///
/// If the database fails. The schema is then unchanged.
pub async fn down(db: &DatabaseConnection, steps: u32) -> Result<(), DbErr> {
    let transaction = begin_alone(db).await?;
    let result = Migrator::down(&transaction, Some(steps)).await;
    end(transaction, result).await
}

/// Commits if `result` is `Ok`. Otherwise rolls back now, not when the connection is used next, because the
/// transaction may hold locks.
async fn end(transaction: DatabaseTransaction, result: Result<(), DbErr>) -> Result<(), DbErr> {
    match result {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await?;
            Err(error)
        }
    }
}

/// Begins a transaction that waits for every other migrating process.
async fn begin_alone(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let transaction = db.begin_with_options(options).await?;
    let backend = transaction.get_database_backend();
    if backend == DbBackend::Postgres {
        let lock = Statement::from_sql_and_values(
            backend,
            "SELECT pg_advisory_xact_lock($1)",
            [ADVISORY_LOCK.into()],
        );
        transaction.execute_raw(lock).await?;
    }
    Ok(transaction)
}

async fn applied(db: &DatabaseConnection) -> Result<Vec<String>, DbErr> {
    if !SchemaManager::new(db).has_table(seaql_migrations::Entity.table_name()).await? {
        return Ok(Vec::new());
    }
    let rows =
        seaql_migrations::Entity::find().order_by_asc(seaql_migrations::Column::Version).all(db).await?;
    Ok(rows.into_iter().map(|row| row.version).collect())
}

#[cfg(test)]
mod postgres_tests;
#[cfg(test)]
mod tests;
