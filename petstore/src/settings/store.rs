//! Address of the store, and its use by a server.

use std::path::PathBuf;

use petstore_core::{
    DatabaseUrl,
    store::{OpenError, OpenOptions},
};

use super::{
    DatabaseSettings, InvalidSetting,
    secret_url::{self, SecretUrl},
    value::is_on,
};

/// Address of the store, and its use by a server.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreSettings {
    /// Where the store is.
    #[command(flatten)]
    pub database: DatabaseSettings,

    /// A streaming replica of the PostgreSQL store, to read pets from: lists may then be up to 10 seconds
    /// late. May be repeated; in the variable separated by commas. A URL with a password is accepted only
    /// from the variable or from --replica-url-file
    #[arg(
        long,
        env = "PETSTORE_REPLICA_URL",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "URL"
    )]
    #[arg(value_parser = SecretUrl::<DatabaseUrl>::new("replica-url"))]
    pub replica_url: Vec<DatabaseUrl>,

    /// A file with the URLs of read replicas, one per line. Only its owner may have access to it (mode 0600)
    #[arg(long, env = "PETSTORE_REPLICA_URL_FILE", conflicts_with = "replica_url", value_name = "FILE")]
    pub replica_url_file: Option<PathBuf>,

    /// How many of the pets that were read last a core keeps in memory, for a minute each, so that it need
    /// not ask the database for them again; 0 for none
    #[arg(long, env = "PETSTORE_PET_CACHE", default_value_t = 10_000, value_name = "PETS")]
    pub pet_cache: u32,

    /// Do not create or migrate the store, but refuse one whose schema is not up to date: for installations
    /// that run `petstore migrate`
    #[arg(long, env = "PETSTORE_NO_MIGRATE", value_parser = is_on)]
    pub no_migrate: bool,
}

impl StoreSettings {
    /// Returns the URLs of the replicas of that store, from the file if one is given.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is open to others, or if a URL cannot be that of a replica.
    pub fn replicas(&self, store: &DatabaseUrl) -> Result<Vec<DatabaseUrl>, InvalidSetting> {
        let (flag, urls) = match &self.replica_url_file {
            None => ("--replica-url", Ok(self.replica_url.clone())),
            Some(file) => ("--replica-url-file", secret_url::read::<DatabaseUrl>(file)),
        };
        let urls = urls.and_then(|urls| {
            if urls.iter().all(|url| url.may_replicate(store)) {
                Ok(urls)
            } else {
                Err(OpenError::NotReplicated.to_string())
            }
        });
        urls.map_err(|reason| InvalidSetting::new(flag, reason))
    }

    pub(crate) fn open_options(&self) -> OpenOptions {
        OpenOptions { migrate: !self.no_migrate, quick_check: true }
    }
}
