//! Opening the store in a PostgreSQL database, and saying plainly why it cannot be opened.

use std::time::Duration;

use sea_orm::{
    DatabaseConnection, DbErr,
    sqlx::{self, Connection, Row},
};
use tokio::time;

use super::{MIGRATOR_TIMEOUT, PostgresAddress, PrimaryConnections, connect, migrator};
use crate::{
    DatabaseUrl,
    store::{
        OpenError, OpenOptions, Store,
        fault::{
            is_slow_connection,
            postgres::{is_refused_login, is_unknown_database},
        },
        health::Health,
        open::{require_current, require_known},
    },
};

/// How long the first connection may take to be made and to answer. A server that refuses it is reported at
/// once, an address where nothing answers soon; one that is busy has some time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens the store in the database.
pub(in crate::store) async fn open(
    url: &DatabaseUrl,
    address: &PostgresAddress,
    options: OpenOptions,
) -> Result<Store, OpenError> {
    let connection = for_schema(url, address).await?;
    let schema = judge_schema(url, &connection, options).await;
    let _ = connection.close().await; // the reason is in `schema`
    schema?;
    let health = Health::default();
    Ok(Store::on_postgres(PrimaryConnections::new(address, &health), health))
}

/// Judges the schema, and brings it up to date if that is wanted.
async fn judge_schema(
    url: &DatabaseUrl,
    connection: &DatabaseConnection,
    options: OpenOptions,
) -> Result<(), OpenError> {
    let schema = async || petstore_migrations::status(connection).await.map_err(|error| explain(url, error));
    require_known(url, schema().await?)?;
    if options.migrate {
        petstore_migrations::up(connection).await.map_err(|error| explain(url, error))?;
    }
    require_current(url, &schema().await?)
}

/// A connection for work on the schema, which may take long.
pub(in crate::store) async fn for_schema(
    url: &DatabaseUrl,
    address: &PostgresAddress,
) -> Result<DatabaseConnection, OpenError> {
    let settings = probe(address).await?;
    if settings.encoding != "UTF8" {
        return Err(OpenError::NotUtf8 { store: url.clone(), encoding: settings.encoding });
    }
    if settings.is_read_only {
        return Err(OpenError::ReadOnly(url.clone()));
    }
    migrator(address).await.map_err(|error| {
        if is_slow_connection(&error) { no_answer(address, MIGRATOR_TIMEOUT) } else { explain(url, error) }
    })
}

/// What has to be right about a database.
struct Settings {
    encoding: String,
    is_read_only: bool,
}

/// Makes one connection, for the reason if it cannot be made, and asks what the database is like.
async fn probe(address: &PostgresAddress) -> Result<Settings, OpenError> {
    let asking = async {
        let mut connection = connect(address).await?;
        let question =
            "SELECT current_setting('server_encoding'), current_setting('transaction_read_only') = 'on'";
        let row = sqlx::query(question).fetch_one(&mut connection).await?;
        let settings = Settings { encoding: row.try_get(0)?, is_read_only: row.try_get(1)? };
        let _ = connection.close().await; // its end is of no interest
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
        return Err(OpenError::NoDatabase { host, database: address.database().to_owned() });
    }
    Err(OpenError::Unreachable { host, cause: said_by(error) })
}

fn no_answer(address: &PostgresAddress, within: Duration) -> OpenError {
    OpenError::Unreachable { host: address.host(), cause: format!("no answer within {within:?}").into() }
}

/// The server's own words, or the driver's.
fn said_by(error: sqlx::Error) -> crate::domain::Cause {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned().into(),
        sqlx::Error::Io(error) => error.into(),
        error => error.into(),
    }
}

pub(in crate::store) fn explain(url: &DatabaseUrl, error: DbErr) -> OpenError {
    OpenError::Postgres { store: url.clone(), cause: error.into() }
}
