//! A database on PostgreSQL: its connections, and opening it, with clear errors if that fails.

use std::{sync::Arc, time::Duration};

use sea_orm::{
    ConnectOptions, ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement,
    sqlx::{
        self, AssertSqlSafe, Connection, Executor, Row,
        postgres::{PgConnectOptions, PgConnection},
    },
};
use tokio::time;

use crate::{
    Cause, Database, DatabaseUrl, OpenError, OpenOptions, PostgresAddress,
    connection::{Connections, Lifetimes, SLOTS, Settings, Target},
    fault::{is_lock_timeout, is_slow_connection, is_unknown_database, missing_privilege},
    health::Health,
    migrations::{self, Schema},
    open::prepare_schema,
};

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

/// Timeout for making the connection for the schema. A server that has just answered another connection is
/// running but may be busy.
const MIGRATOR_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of connections for any statement that reads, and as many for any that writes. With those for
/// batches one core has 16, so half a dozen cores fit into PostgreSQL's default of 100. In a core that needs
/// more at once, calls wait for a connection.
const FOR_ANYTHING: usize = 5;

/// Returns the connections for any statement that reads. No connection is made before it is needed.
pub(super) fn reader(address: &PostgresAddress, health: &Arc<Health>) -> Connections {
    Connections::new(settings(address, health, true, false))
}

/// Returns the connections for one kind of batched call, beside those for any statement that reads.
pub(super) fn lane(
    address: &PostgresAddress,
    reader: &Connections,
    health: &Arc<Health>,
    is_read_only: bool,
) -> Connections {
    reader.beside(settings(address, health, is_read_only, true))
}

fn settings(
    address: &PostgresAddress,
    health: &Arc<Health>,
    is_read_only: bool,
    is_batched: bool,
) -> Settings {
    // Statements of batches are written so that one plan is right for all values, and planning them each time
    // would cost more than executing them. For other statements, a generic plan could read far more rows than
    // necessary.
    let plans = if is_batched { "force_generic_plan" } else { "force_custom_plan" };
    let mut parameters = SERVER_LIMITS.to_vec();
    parameters.push(("plan_cache_mode", plans));
    let access = "default_transaction_read_only";
    parameters.extend(is_read_only.then_some((access, "on")));
    // Not set to `off`: an operator may have made a server read-only that others replace.
    let reset = if is_read_only { String::new() } else { format!("; RESET {access}") };
    Settings {
        target: Target::Postgres(Box::new(connect_options(address)), set(&parameters) + &reset),
        is_for_writes: !is_read_only,
        connections: if is_batched { SLOTS } else { FOR_ANYTHING },
        // Longer than the server's limit on statements, and than a caller waits.
        job_timeout: Some(Duration::from_millis(2_500)),
        lifetimes: Some(Lifetimes {
            max_idle: Duration::from_mins(10),
            // Bounded so that connections spread again over servers behind one name, and a leak in a backend
            // ends.
            max_age: Duration::from_mins(30),
            ping_after: Duration::from_secs(1),
        }),
        health: health.clone(),
    }
}

/// Returns the statement that sets parameters of a session.
fn set(parameters: &[(&str, &str)]) -> String {
    let each = parameters.iter().map(|(name, value)| format!("SET {name} = '{value}'"));
    each.collect::<Vec<_>>().join("; ")
}

/// Returns one connection for the schema, as a pool because migrations require one. It serves no calls.
async fn migrator(address: &PostgresAddress) -> Result<DatabaseConnection, DbErr> {
    // Migrations may run long. They wait for a lock only briefly, so that calls queued behind them for a lock
    // are still answered.
    let setup: Arc<str> = set(&[("statement_timeout", "0"), ("lock_timeout", "500ms")]).into();
    let connect = connect_options(address);
    let mut options = ConnectOptions::new("postgres://localhost"); // the relevant options are set below
    options
        .max_connections(1)
        .min_connections(1)
        .acquire_timeout(MIGRATOR_TIMEOUT)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .map_sqlx_postgres_opts(move |_| connect.clone())
        .map_sqlx_postgres_pool_opts(move |pool| {
            let setup = setup.clone();
            pool.after_connect(move |connection, _| {
                let setup = setup.clone();
                Box::pin(async move { connection.execute(AssertSqlSafe(&*setup)).await.map(drop) })
            })
        });
    sea_orm::Database::connect(options).await
}

fn connect_options(address: &PostgresAddress) -> PgConnectOptions {
    let options = address.options().statement_cache_capacity(128); // more than the store has
    if options.get_application_name().is_some() { options } else { options.application_name("petstore") }
}

/// Timeout for making the first connection and for its answer. A server that refuses it is reported at once,
/// an address that does not answer is reported soon, and a busy server is given some time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens the database.
pub(super) async fn open(
    url: &DatabaseUrl,
    address: &PostgresAddress,
    schema: &Schema,
    options: OpenOptions,
) -> Result<Database, OpenError> {
    let connection = for_schema(url, address).await?;
    let on = &connection;
    let status = || async move { migrations::status(on, schema).await.map_err(|error| explain(url, error)) };
    let up = || async move {
        let up = retry_while_locked(on, || migrations::up(on, schema)).await;
        up.map_err(|error| explain(url, error))?;
        if let Err(error) = advance_sequences(on).await {
            tracing::debug!(%error, "the sequences of rows' numbers were not checked");
        }
        Ok(())
    };
    let prepared = prepare_schema(url, schema, options, status, up).await;
    let _ = connection.close().await; // the reason is in `prepared`
    prepared?;
    let health = Arc::default();
    let reader = reader(address, &health);
    let writer = reader.beside(settings(address, &health, false, false));
    // The server's own timeouts have no effect while it is frozen or cut off, and callers should learn of
    // that soon.
    let deadline = Duration::from_millis(1_400);
    Ok(Database::new(writer, reader, Some(address.clone()), deadline, health))
}

/// Advances each sequence that is behind the rows of its table, which were copied without it: new rows would
/// get numbers that are in use. The rows are read before the sequence, which is ahead of those that it gave
/// numbers to.
async fn advance_sequences(connection: &DatabaseConnection) -> Result<(), DbErr> {
    let ask =
        async |sql: String| connection.query_all_raw(Statement::from_string(DbBackend::Postgres, sql)).await;
    let tables = "SELECT quote_ident(table_name), quote_ident(column_name), \
                      format('pg_get_serial_sequence(%L, %L)', quote_ident(table_name), column_name) \
                  FROM information_schema.columns \
                  WHERE table_schema = current_schema() AND is_identity = 'YES'";
    for table in ask(tables.to_owned()).await? {
        let (name, column): (String, String) = (table.try_get_by_index(0)?, table.try_get_by_index(1)?);
        let sequence: String = table.try_get_by_index(2)?;
        let advance = format!(
            "SELECT setval(sequence, last) FROM ( \
                 SELECT {sequence}::regclass AS sequence, \
                     (SELECT max({column}) FROM {name}) AS last) AS of_table \
             WHERE last > coalesce(pg_sequence_last_value(sequence), 0)"
        );
        match ask(advance).await {
            Ok(rows) if rows.is_empty() => {}
            Ok(_) => tracing::warn!("the sequence of {name}.{column} was behind its rows, and is advanced"),
            // Only its owner may advance it.
            Err(error) => tracing::debug!(%error, "the sequence of {name}.{column} was not checked"),
        }
    }
    Ok(())
}

/// Retries while other sessions hold locks that work on the schema needs, for ten minutes at most. In
/// between, calls of running cores that wait behind it are answered.
pub(super) async fn retry_while_locked<T, F>(
    connection: &DatabaseConnection,
    work: impl Fn() -> F,
) -> Result<T, DbErr>
where
    F: Future<Output = Result<T, DbErr>>,
{
    let deadline = time::Instant::now() + Duration::from_mins(10);
    let mut waited_for = String::new();
    loop {
        match work().await {
            Err(error) if is_lock_timeout(&error) && time::Instant::now() < deadline => {
                let holder = lock_holder(connection).await.unwrap_or_default();
                if holder != waited_for {
                    tracing::warn!(
                        "the schema cannot be changed while another session holds a lock: {holder}"
                    );
                    waited_for = holder;
                }
                time::sleep(Duration::from_millis(1_500)).await;
            }
            result => return result,
        }
    }
}

/// Returns a description of the session that has held a lock in this database for longest.
async fn lock_holder(connection: &DatabaseConnection) -> Result<String, DbErr> {
    let question = "SELECT format('process %s, %s, of user %s', pid, \
                        coalesce(nullif(application_name, ''), 'without a name'), usename) \
                    FROM pg_locks JOIN pg_stat_activity USING (pid) \
                    WHERE granted AND pid <> pg_backend_pid() AND datname = current_database() \
                        AND (locktype = 'advisory' OR locktype = 'relation' AND relation >= 16384) \
                    ORDER BY xact_start NULLS FIRST LIMIT 1";
    let question = Statement::from_string(DbBackend::Postgres, question);
    let row = connection.query_one_raw(question).await?;
    row.map_or_else(|| Ok("it has just ended".to_owned()), |row| row.try_get_by_index(0))
}

/// Returns a connection for work on the schema, which may take long.
pub(super) async fn for_schema(
    url: &DatabaseUrl,
    address: &PostgresAddress,
) -> Result<DatabaseConnection, OpenError> {
    let (encoding, is_read_only) = probe(address).await?;
    if encoding != "UTF8" {
        return Err(OpenError::NotUtf8(url.clone(), encoding));
    }
    if is_read_only {
        return Err(OpenError::ReadOnly(url.clone()));
    }
    migrator(address).await.map_err(|error| {
        if is_slow_connection(&error) { no_answer(address, MIGRATOR_TIMEOUT) } else { explain(url, error) }
    })
}

/// Makes one connection, and returns the database's encoding, and `true` if it is read-only.
async fn probe(address: &PostgresAddress) -> Result<(String, bool), OpenError> {
    let asking = async {
        // Without a pool, which does not report why it cannot connect.
        let mut connection = PgConnection::connect_with(&connect_options(address)).await?;
        let question =
            "SELECT current_setting('server_encoding'), current_setting('transaction_read_only') = 'on'";
        let row = sqlx::query(question).fetch_one(&mut connection).await?;
        let settings = (row.try_get(0)?, row.try_get(1)?);
        let _ = connection.close().await; // its result is not needed
        Ok(settings)
    };
    let error: sqlx::Error = match time::timeout(PROBE_TIMEOUT, asking).await {
        Ok(Ok(settings)) => return Ok(settings),
        Ok(Err(error)) => error,
        Err(_) => return Err(no_answer(address, PROBE_TIMEOUT)),
    };
    let host = address.host();
    Err(if is_unknown_database(&error) {
        OpenError::NoDatabase(host, address.database().to_owned())
    } else if matches!(error, sqlx::Error::Database(_)) {
        OpenError::LoginRefused(host, address.user().to_owned(), said_by(error))
    } else {
        OpenError::Unreachable(host, said_by(error))
    })
}

fn no_answer(address: &PostgresAddress, within: Duration) -> OpenError {
    OpenError::Unreachable(address.host(), format!("no answer within {within:?}").into())
}

/// Returns the error message of the server, or of the driver.
fn said_by(error: sqlx::Error) -> Cause {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned().into(),
        sqlx::Error::Io(error) => error.into(),
        error => error.into(),
    }
}

pub(super) fn explain(url: &DatabaseUrl, error: DbErr) -> OpenError {
    match missing_privilege(&error) {
        Some(message) => OpenError::NotPermitted(url.clone(), message.to_owned()),
        None => OpenError::Other(url.to_string(), error.into()),
    }
}

#[cfg(test)]
mod tests;
