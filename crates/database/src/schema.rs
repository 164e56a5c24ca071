//! The schema of a database, for the operator.

use sea_orm::{DatabaseConnection, DbErr};

use crate::{
    Database, DatabaseUrl, Losses, Migration, OpenError, OpenOptions, Schema, migrations, postgres, sqlite,
};

/// Returns every change of the schema, oldest first, and its state in the store. Changes nothing.
///
/// # Errors
///
/// If the store cannot be opened. A missing store is not created.
pub async fn status(url: &DatabaseUrl, schema: &Schema) -> Result<Vec<Migration>, OpenError> {
    on_connection(url, schema, async |on| migrations::status(on, schema).await).await
}

/// Applies every change that is pending, and creates a SQLite store if it is missing. Each change is applied
/// as a whole or not at all.
///
/// # Errors
///
/// If the store cannot be opened or changed.
pub async fn up(url: &DatabaseUrl, schema: &Schema) -> Result<Vec<Migration>, OpenError> {
    let options = OpenOptions { migrate: true, quick_check: false };
    Database::open(url, schema, options).await?.close().await;
    status(url, schema).await
}

/// Returns the losses that [`down`] would cause: changes, and the tables and columns with data in them.
/// Changes nothing.
///
/// # Errors
///
/// If the store cannot be opened.
pub async fn losses(url: &DatabaseUrl, schema: &Schema, steps: u32) -> Result<Losses, OpenError> {
    on_connection(url, schema, async |on| migrations::losses(on, schema, steps).await).await
}

/// Reverts the newest `steps` changes, with the data that is in them, all or none.
///
/// # Errors
///
/// If the store cannot be opened or changed.
pub async fn down(url: &DatabaseUrl, schema: &Schema, steps: u32) -> Result<Vec<Migration>, OpenError> {
    on_connection(url, schema, async |on| migrations::down(on, schema, steps).await).await?;
    status(url, schema).await
}

/// Returns the result of work on a separate connection, which is closed afterwards. On SQLite the work is
/// retried while another process holds the file.
async fn on_connection<T>(
    url: &DatabaseUrl,
    schema: &Schema,
    work: impl AsyncFn(&DatabaseConnection) -> Result<T, DbErr>,
) -> Result<T, OpenError> {
    let (connection, result) = match url {
        DatabaseUrl::Sqlite(path) => {
            let connection = Box::pin(sqlite::for_schema(path, schema, false)).await?;
            let result = Box::pin(sqlite::retry_while_busy(path, || work(&connection))).await;
            (connection, result)
        }
        DatabaseUrl::Postgres(address) => {
            let connection = Box::pin(postgres::for_schema(url, address)).await?;
            let result = Box::pin(postgres::retry_while_locked(&connection, || work(&connection))).await;
            let result = result.map_err(|error| postgres::explain(url, error));
            (connection, result)
        }
    };
    let _ = connection.close().await; // the relevant error is in `result`
    result
}
