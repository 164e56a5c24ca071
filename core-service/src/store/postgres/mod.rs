//! Connections to a PostgreSQL database.

use std::{sync::Arc, time::Duration};

use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DbErr,
    sqlx::{
        Connection,
        postgres::{PgConnectOptions, PgConnection},
    },
};

mod address;
mod open;
mod suspicion;

pub use address::PostgresAddress;
pub(super) use open::{explain, for_schema, open};
pub(super) use suspicion::Suspicion;

/// Connections of one core: so that half a dozen cores fit into PostgreSQL's default of 100. A core that would do
/// more at once lets calls wait for a connection.
const CONNECTIONS: u32 = 16;
/// How long a call waits for one of them, or for a new one to be made.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
/// One that is not needed for so long is given back.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// So that connections spread anew over servers behind one name, and a leak in a backend ends.
const MAX_LIFETIME: Duration = Duration::from_mins(30);
/// One that was idle for so long may have been cut unnoticed: it is asked before it is used.
const TEST_IF_IDLE_FOR: Duration = Duration::from_secs(1);
/// Statements kept prepared on each connection: more than the store has.
const STATEMENT_CACHE: usize = 128;

/// What the server itself bounds: no statement runs on for long after its caller has given up, and no transaction
/// whose core was frozen or cut off holds its locks for long.
const SERVER_LIMITS: [(&str, &str); 4] = [
    ("statement_timeout", "2s"),
    ("lock_timeout", "1s"),
    ("idle_in_transaction_session_timeout", "5s"),
    // A plan made for any status and any page size could scan and sort; planning one of these takes 0.1 ms.
    ("plan_cache_mode", "force_custom_plan"),
];

/// Migrations may take their time, and wait for those of other processes.
const MIGRATION_LIMITS: [(&str, &str); 2] = [("statement_timeout", "0"), ("lock_timeout", "60s")];

/// The connections that serve calls. None is made before it is needed, so this does not fail because the server is
/// away.
pub(super) async fn pool(
    address: &PostgresAddress,
    suspicion: Arc<Suspicion>,
) -> Result<DatabaseConnection, DbErr> {
    let mut options = options(connect_options(address).options(SERVER_LIMITS));
    options
        .connect_lazy(true)
        .max_connections(CONNECTIONS)
        .idle_timeout(IDLE_TIMEOUT)
        .max_lifetime(MAX_LIFETIME)
        .test_before_acquire(false) // the next line asks only when there is a reason to
        .map_sqlx_postgres_before_acquire(move |connection, metadata| {
            let asked = metadata.idle_for >= TEST_IF_IDLE_FOR || suspicion.covers(metadata.idle_for);
            Box::pin(async move {
                if asked {
                    connection.ping().await?;
                }
                Ok(true)
            })
        });
    Database::connect(options).await
}

/// One connection for the schema.
async fn migrator(address: &PostgresAddress) -> Result<DatabaseConnection, DbErr> {
    let mut options = options(connect_options(address).options(MIGRATION_LIMITS));
    options.max_connections(1).min_connections(1);
    Database::connect(options).await
}

/// One connection without a pool: the pool does not tell why it cannot connect.
async fn connect(address: &PostgresAddress) -> Result<PgConnection, sea_orm::sqlx::Error> {
    PgConnection::connect_with(&connect_options(address).options(SERVER_LIMITS)).await
}

fn connect_options(address: &PostgresAddress) -> PgConnectOptions {
    let options = address.options().statement_cache_capacity(STATEMENT_CACHE);
    if options.get_application_name().is_some() { options } else { options.application_name("petstore") }
}

fn options(connect: PgConnectOptions) -> ConnectOptions {
    let mut options = ConnectOptions::new("postgres://localhost"); // what counts goes in below
    options
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_postgres_opts(move |_| connect.clone());
    options
}

#[cfg(test)]
mod tests;
