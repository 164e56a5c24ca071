//! A new store in a folder of its own.

use std::path::Path;

use sea_orm::DatabaseTransaction;
use tempfile::TempDir;

use super::{OpenOptions, Store};
use crate::DatabaseUrl;

pub(crate) fn url(path: &Path) -> DatabaseUrl {
    format!("sqlite://{}", path.display()).parse().unwrap()
}

/// The store, and the folder that goes away with its handle.
pub(crate) async fn new_store() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    (store, folder)
}

/// Opens the store in the folder once more, as another process would.
pub(crate) async fn open(folder: &Path) -> Store {
    let options = OpenOptions { migrate: true, quick_check: true };
    Store::open(&url(&folder.join("petstore.db")), options).await.unwrap()
}

impl Store {
    /// Keeps every other writer waiting, until the transaction ends.
    pub(crate) async fn lock_for_writing(&self) -> DatabaseTransaction {
        self.begin().await.unwrap()
    }
}
