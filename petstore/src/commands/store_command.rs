//! What the commands share that work on the store, also while the service runs on it.

use petstore_core::{
    DatabaseUrl,
    store::{OpenOptions, Store},
};
use tokio::runtime;

use crate::{
    error::CliError,
    output::{OutputSettings, command_log},
    settings::DatabaseSettings,
};

/// Which store, and how to print.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreCommandSettings {
    #[command(flatten)]
    database: DatabaseSettings,

    #[command(flatten)]
    output: OutputSettings,
}

impl StoreCommandSettings {
    /// Does the work on the store, which must exist and have the schema of this version.
    pub(crate) fn on_store<T>(
        &self,
        work: impl AsyncFnOnce(&Store) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.on_url(async |url| {
            let store = Store::open(url, OpenOptions::default()).await?;
            let done = work(&store).await;
            store.close().await;
            done
        })
    }

    /// Does the work on whatever is at the store's address.
    pub(crate) fn on_url<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseUrl) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        command_log();
        let url = self.database.url()?;
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
        runtime.block_on(work(&url))
    }

    /// Whether results are for people.
    pub(crate) fn is_text(&self) -> bool {
        self.output.is_text()
    }

    /// Prints a result in the form that was asked for.
    pub(crate) fn print(
        &self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
    ) -> Result<(), CliError> {
        Ok(self.output.print(text, json)?)
    }
}
