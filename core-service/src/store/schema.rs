//! The schema of a store, for the operator.

pub use petstore_migrations::{Migration, MigrationState};
use petstore_migrations::{down as take_back, status as read_status};

use super::{
    OpenError,
    open::{open_writer, patiently},
};
use crate::DatabaseUrl;

/// Every change of the schema, oldest first, and whether the store has it. Changes nothing.
///
/// # Errors
///
/// Why the store cannot be opened; a missing one is not created.
pub async fn status(url: &DatabaseUrl) -> Result<Vec<Migration>, OpenError> {
    let writer = open_writer(url.path(), false).await?;
    let status = patiently(url.path(), || read_status(&writer)).await;
    let _ = writer.close().await; // nothing was written
    status
}

/// Applies every change that is pending, and creates the store if it is missing. All or nothing.
///
/// # Errors
///
/// Why the store cannot be opened or changed.
pub async fn up(url: &DatabaseUrl) -> Result<Vec<Migration>, OpenError> {
    let options = super::OpenOptions { migrate: true, quick_check: false };
    super::Store::open(url, options).await?.close().await;
    status(url).await
}

/// Takes back the newest `steps` changes, with the data that is in them. All or nothing.
///
/// # Errors
///
/// Why the store cannot be opened or changed.
pub async fn down(url: &DatabaseUrl, steps: u32) -> Result<Vec<Migration>, OpenError> {
    let writer = open_writer(url.path(), false).await?;
    let result = patiently(url.path(), || take_back(&writer, steps)).await;
    let _ = writer.close().await; // the reason is in `result`
    result?;
    status(url).await
}
