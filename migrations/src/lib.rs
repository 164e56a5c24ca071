//! The schema of the store, one change per file.
//!
//! The changes are written with the schema builder, so that the same ones run on SQLite and on PostgreSQL.
//! [`up`] applies each in a transaction of its own, under the database's write lock: any number of processes
//! may start on one database at once, and a killed one leaves no change half done. `migrations/README.md`
//! says what a change may do.

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

/// Where migrating processes queue up on PostgreSQL. Any number does that nobody else uses: "petstore" in
/// ASCII.
const ADVISORY_LOCK: i64 = i64::from_be_bytes(*b"petstore");

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m0001_baseline::Migration)]
    }
}

/// One change of the schema, and whether the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its name, which orders it among the others.
    pub name: String,
    /// Whether the database has it.
    pub state: MigrationState,
}

/// Whether a database has a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// It has.
    Applied,
    /// Not yet.
    Pending,
    /// It has, but this binary does not know the change: the schema is newer than the binary.
    Unknown,
}

/// Every change that the binary or the database knows, oldest first. Writes nothing.
///
/// # Errors
///
/// What the database answers.
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

/// Applies what is pending, one change after the other. Does nothing, and takes no lock, if nothing is.
///
/// # Errors
///
/// What the database answers; the change that failed is then undone, and those before it are applied.
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    while status(db).await?.iter().any(|migration| migration.state == MigrationState::Pending) {
        let transaction = begin_alone(db).await?;
        // Asks again what is pending, now that no other process can change it.
        let result = Migrator::up(&transaction, Some(1)).await;
        end(transaction, result).await?;
    }
    Ok(())
}

/// What taking back changes would remove from a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    /// The changes, newest first.
    pub migrations: Vec<String>,
    /// The tables and columns that hold data by then, by name.
    pub removed: Vec<Loss>,
}

/// A table, or a column of a table that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The table.
    pub table: String,
    /// The column, if the table stays.
    pub column: Option<String>,
    /// How many rows the table has.
    pub rows: i64,
}

/// What [`down`] would remove. Changes nothing: the changes are tried on an empty database in memory, and of
/// this one only rows are counted.
///
/// # Errors
///
/// What the databases answer.
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

/// The tables of a SQLite database, and the columns of each.
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

/// Takes back the newest `steps` changes, with the data in them.
///
/// # Errors
///
/// What the database answers; the schema is then as it was before.
pub async fn down(db: &DatabaseConnection, steps: u32) -> Result<(), DbErr> {
    let transaction = begin_alone(db).await?;
    let result = Migrator::down(&transaction, Some(steps)).await;
    end(transaction, result).await
}

/// Commits what succeeded. Undoes what failed now, not when the connection is used next: it may hold locks.
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
