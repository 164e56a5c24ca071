//! Where the store is, and how a server uses it.

use clap::builder::BoolishValueParser;
use petstore_core::store::OpenOptions;

use super::DatabaseSettings;

/// Where the store is, and how a server uses it.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreSettings {
    /// Where the store is.
    #[command(flatten)]
    pub database: DatabaseSettings,

    /// Leaves the schema to `petstore migrate`: a store whose schema is not up to date is refused, and a missing one
    /// is not created
    #[arg(long, env = "PETSTORE_NO_MIGRATE", value_parser = BoolishValueParser::new())]
    pub no_migrate: bool,
}

impl StoreSettings {
    pub(crate) fn open_options(&self) -> OpenOptions {
        OpenOptions { migrate: !self.no_migrate, quick_check: true }
    }
}
