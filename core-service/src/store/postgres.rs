//! Connections to a PostgreSQL database.

use std::time::Duration;

use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DbErr,
    sqlx::{
        Connection,
        postgres::{PgConnectOptions, PgConnection},
    },
};

use super::{
    PostgresAddress,
    connection::{Connections, Lifetimes, Settings, Target},
    health::Health,
    pets::{CREATE_CONNECTIONS, GET_CONNECTIONS, LIST_CONNECTIONS, PetCreates, PetReads},
};

mod open;

pub(super) use open::{explain, for_schema, open, retry_while_locked};

/// Number of connections of one core. Half a dozen cores fit into PostgreSQL's default of 100. In a core that
/// needs more at once, calls wait for a connection.
const CONNECTIONS: usize = 16;
/// Number of connections for any statement that reads, and as many for any that writes. The others are for
/// batched calls.
const FOR_ANYTHING: usize = (CONNECTIONS - GET_CONNECTIONS - LIST_CONNECTIONS - CREATE_CONNECTIONS) / 2;
/// Maximum run time of a job: longer than the server's limit on statements, and than a caller waits.
const JOB_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Lifetimes of connections.
const LIFETIMES: Lifetimes = Lifetimes {
    max_idle: Duration::from_mins(10),
    // Bounded so that connections spread again over servers behind one name, and a leak in a backend ends.
    max_age: Duration::from_mins(30),
    ping_after: Duration::from_secs(1),
};
/// Number of statements kept prepared on each connection: more than the store has.
const STATEMENT_CACHE: usize = 128;

/// Limits that the server itself enforces. No statement continues for long after its caller has given up, and
/// no transaction of a core that was frozen or cut off holds its locks for long.
const SERVER_LIMITS: [(&str, &str); 6] = [
    ("statement_timeout", "2s"),
    ("lock_timeout", "1s"),
    ("idle_in_transaction_session_timeout", "5s"),
    // Every statement finds its rows by key or by an index, in its order. If a table was not analysed since
    // it grew, the planner expects otherwise, and would read all of it, or all pets of a status, and sort
    // them.
    ("enable_bitmapscan", "off"),
    ("enable_seqscan", "off"),
    // A small table without an index is still read as a whole. Because bitmap and sequential scans are off,
    // the server expects that to be very expensive, and would compile the statement first: for a tenth of a
    // second on an idle machine, and past the caller's deadline on a busy one.
    ("jit", "off"),
];

/// Setting for connections that only read: the server refuses statements that write.
const READ_ONLY: (&str, &str) = ("default_transaction_read_only", "on");
const READ_WRITE: (&str, &str) = ("default_transaction_read_only", "off");

/// Timeout for making the connection for the schema. A server that has just answered another connection is
/// running but may be busy.
const MIGRATOR_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits for migrations, which may run long. They wait for a lock only briefly, so that calls queued behind
/// them for a lock are still answered.
const MIGRATION_LIMITS: [(&str, &str); 2] = [("statement_timeout", "0"), ("lock_timeout", "500ms")];

/// Setting for most statements, which are planned for each set of values: a generic plan could read far more
/// rows than necessary.
const CUSTOM_PLANS: (&str, &str) = ("plan_cache_mode", "force_custom_plan");
/// Setting for batched calls. Their statements are written so that one plan is right for all values. Planning
/// them each time would cost more than executing them.
const GENERIC_PLANS: (&str, &str) = ("plan_cache_mode", "force_generic_plan");

/// Connections to the primary that serve calls.
pub(super) struct PrimaryConnections {
    pub(super) writer: Connections,
    pub(super) reader: Connections,
    pub(super) pet_reads: PetReads,
    pub(super) creates: PetCreates,
}

impl PrimaryConnections {
    /// Creates the groups of connections. No connection is made before it is needed, so this does not fail if
    /// the server is unavailable.
    fn new(address: &PostgresAddress, health: &Health) -> Self {
        let reader = reader(address, health);
        let for_writing =
            |connections, plans| reader.beside(settings(address, connections, [READ_WRITE, plans], health));
        let (writer, creates) =
            (for_writing(FOR_ANYTHING, CUSTOM_PLANS), for_writing(CREATE_CONNECTIONS, GENERIC_PLANS));
        Self {
            pet_reads: pet_reads(address, &reader, health),
            creates: PetCreates::new(creates, writer.clone()),
            writer,
            reader,
        }
    }
}

/// Returns the connections for any statement that reads. No connection is made before it is needed.
pub(super) fn reader(address: &PostgresAddress, health: &Health) -> Connections {
    Connections::new(settings(address, FOR_ANYTHING, [READ_ONLY, CUSTOM_PLANS], health))
}

/// Returns the connections for reading pets, beside those for any statement that reads.
pub(super) fn pet_reads(address: &PostgresAddress, reader: &Connections, health: &Health) -> PetReads {
    let for_one_kind =
        |connections| reader.beside(settings(address, connections, [READ_ONLY, GENERIC_PLANS], health));
    PetReads::new(for_one_kind(GET_CONNECTIONS), for_one_kind(LIST_CONNECTIONS), reader.clone())
}

fn settings(
    address: &PostgresAddress,
    connections: usize,
    parameters: [(&str, &str); 2],
    health: &Health,
) -> Settings {
    let options = connect_options(address).options(SERVER_LIMITS).options(parameters);
    Settings {
        target: Target::Postgres(Box::new(options)),
        connections,
        job_timeout: Some(JOB_TIMEOUT),
        lifetimes: Some(LIFETIMES),
        health: health.clone(),
    }
}

/// Returns one connection for the schema, as a pool because migrations require one. It serves no calls.
async fn migrator(address: &PostgresAddress) -> Result<DatabaseConnection, DbErr> {
    let connect = connect_options(address).options(MIGRATION_LIMITS);
    let mut options = ConnectOptions::new("postgres://localhost"); // the relevant options are set below
    options
        .max_connections(1)
        .min_connections(1)
        .acquire_timeout(MIGRATOR_TIMEOUT)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_postgres_opts(move |_| connect.clone());
    Database::connect(options).await
}

/// Returns one connection without a pool: the pool does not report why it cannot connect.
async fn connect(address: &PostgresAddress) -> Result<PgConnection, sea_orm::sqlx::Error> {
    PgConnection::connect_with(&connect_options(address).options(SERVER_LIMITS)).await
}

fn connect_options(address: &PostgresAddress) -> PgConnectOptions {
    let options = address.options().statement_cache_capacity(STATEMENT_CACHE);
    if options.get_application_name().is_some() { options } else { options.application_name("petstore") }
}

#[cfg(test)]
mod tests;
