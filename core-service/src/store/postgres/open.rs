//! Opening the store in a PostgreSQL database, with clear errors if it cannot be opened.

use std::time::Duration;

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement,
    sqlx::{self, Connection, Row},
};
use tokio::time;

use super::{MIGRATOR_TIMEOUT, PostgresAddress, connect, migrator};
use crate::{
    DatabaseUrl,
    store::{
        OpenError, OpenOptions, Store,
        fault::{is_lock_timeout, is_refused_login, is_slow_connection, is_unknown_database},
        health::Health,
        open::prepare_schema,
    },
};

/// Timeout for making the first connection and for its answer. A server that refuses it is reported at once,
/// an address that does not answer is reported soon, and a busy server is given some time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens the store in the database.
pub(in crate::store) async fn open(
    url: &DatabaseUrl,
    address: &PostgresAddress,
    options: OpenOptions,
) -> Result<Store, OpenError> {
    let connection = for_schema(url, address).await?;
    let on = &connection;
    let status = || async move { petstore_migrations::status(on).await.map_err(|error| explain(url, error)) };
    let up = || async move {
        let up = retry_while_locked(on, || petstore_migrations::up(on)).await;
        up.map_err(|error| explain(url, error))
    };
    let schema = prepare_schema(url, options, status, up).await;
    let _ = connection.close().await; // the reason is in `schema`
    schema?;
    Ok(super::store(address, Health::default()))
}

/// Retries while other sessions hold locks that work on the schema needs, for ten minutes at most. In
/// between, calls of running cores that wait behind it are answered.
pub(in crate::store) async fn retry_while_locked<T, F>(
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
pub(in crate::store) async fn for_schema(
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
        let mut connection = connect(address).await?;
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
    if is_refused_login(&error) {
        return Err(OpenError::LoginRefused { host, user: address.user().to_owned(), cause: said_by(error) });
    }
    if is_unknown_database(&error) {
        return Err(OpenError::NoDatabase(host, address.database().to_owned()));
    }
    Err(OpenError::Unreachable(host, said_by(error)))
}

fn no_answer(address: &PostgresAddress, within: Duration) -> OpenError {
    OpenError::Unreachable(address.host(), format!("no answer within {within:?}").into())
}

/// Returns the error message of the server, or of the driver.
fn said_by(error: sqlx::Error) -> crate::domain::Cause {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned().into(),
        sqlx::Error::Io(error) => error.into(),
        error => error.into(),
    }
}

pub(in crate::store) fn explain(url: &DatabaseUrl, error: DbErr) -> OpenError {
    OpenError::Other(url.to_string(), error.into())
}
