//! The schema of the store, one change per file.
//!
//! The changes are written with the schema builder, so that the same ones run on SQLite and on PostgreSQL;
//! only where rows are converted do they differ. [`up`] and [`down`] take the database's write lock first and
//! do all their work in one transaction: any number of processes may start on one database at once, and a
//! killed one leaves nothing half done.

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

mod column;
mod m0001_pets;
mod m0002_accounts;
mod m0003_api_keys;
mod m0004_revision;
mod m0005_orders;
mod m0006_bans;
mod m0007_usage;
mod m0008_create_requests;
mod m0009_imports;
mod m0010_create_request_digests;
mod m0011_installation;
mod m0012_ban_origins;
mod m0013_operators;
mod m0014_audit_events;
mod m0015_suspensions_and_labels;
mod m0016_usage_minutes_and_refusals;
mod m0017_operator_sessions;
mod m0018_audit_events_stay;

/// Where migrating processes queue up on PostgreSQL. Any number does that nobody else uses: "petstore" in
/// ASCII.
const ADVISORY_LOCK: i64 = i64::from_be_bytes(*b"petstore");

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_pets::Migration),
            Box::new(m0002_accounts::Migration),
            Box::new(m0003_api_keys::Migration),
            Box::new(m0004_revision::Migration),
            Box::new(m0005_orders::Migration),
            Box::new(m0006_bans::Migration),
            Box::new(m0007_usage::Migration),
            Box::new(m0008_create_requests::Migration),
            Box::new(m0009_imports::Migration),
            Box::new(m0010_create_request_digests::Migration),
            Box::new(m0011_installation::Migration),
            Box::new(m0012_ban_origins::Migration),
            Box::new(m0013_operators::Migration),
            Box::new(m0014_audit_events::Migration),
            Box::new(m0015_suspensions_and_labels::Migration),
            Box::new(m0016_usage_minutes_and_refusals::Migration),
            Box::new(m0017_operator_sessions::Migration),
            Box::new(m0018_audit_events_stay::Migration),
        ]
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

/// Applies what is pending. Does nothing, and takes no lock, if nothing is.
///
/// # Errors
///
/// What the database answers; the schema is then as it was before.
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    if status(db).await?.iter().all(|migration| migration.state != MigrationState::Pending) {
        return Ok(());
    }
    let transaction = begin_alone(db).await?;
    Migrator::up(&transaction, None).await?; // asks again what is pending, now that nobody else can change it
    transaction.commit().await
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
    Migrator::down(&transaction, Some(steps)).await?;
    transaction.commit().await
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
