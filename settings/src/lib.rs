//! Settings, by flag or by environment variable. clap's definitions here are the only ones: `--help`, the
//! table in `docs/settings.md` and the values that the verbs read all come from them.
//!
//! A setting `--some-setting` has the variable `PETSTORE_SOME_SETTING`; the flag takes precedence. There is
//! no settings file. An argument that selects what a command does, such as `ban add --for 1h`, is a flag
//! without a variable.
//!
//! A value is parsed into a type that holds only valid ones. What cannot be parsed is an error that names the
//! setting and the accepted values, before anything starts. A password or token comes from a file that only
//! its owner can read, or from a variable, and no error repeats it.
//!
//! ```
//! use petstore_settings::{DatabaseSettings, from_flags};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings: DatabaseSettings = from_flags(["--database-url", "sqlite:///srv/petstore.db"])?;
//! assert_eq!(settings.url()?.to_string(), "sqlite:///srv/petstore.db");
//!
//! let with_password = ["--database-url", "postgres://petstore:secret@db/petstore"];
//! let refusal = from_flags::<DatabaseSettings, _>(with_password).unwrap_err().to_string();
//! assert!(refusal.contains("must come from PETSTORE_DATABASE_URL or --database-url-file"));
//! assert!(!refusal.contains("secret"));
//! # Ok(())
//! # }
//! ```

mod addr;
mod edge;
mod files;
mod grpc;
mod process;
mod secret_url;
mod store;
pub mod value;

use std::ffi::OsString;

use petstore_caller::api_key::Environment;

pub use self::{
    addr::{GrpcAddr, HostName, ListenAddr},
    edge::{AddrOrOff, EdgeSettings, LimiterSettings},
    files::{TokenSettings, secret_file, settings_file},
    grpc::{CoreAddressSettings, GrpcSettings},
    process::ProcessSettings,
    secret_url::SecretUrl,
    store::{DatabaseSettings, StoreSettings},
};

/// Error of a setting that cannot be used. Its text names the setting and the accepted values, and never
/// shows the value, which could be a secret.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {reason}")]
pub struct InvalidSetting {
    setting: &'static str,
    reason: String,
}

impl InvalidSetting {
    /// Creates the error of a setting, by its flag, with the values that it accepts.
    pub fn new(setting: &'static str, reason: impl Into<String>) -> Self {
        Self { setting, reason: reason.into() }
    }
}

/// Settings that name the installation.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct EnvironmentSettings {
    /// Environment, production or staging: keys begin with `pet_live_` or `pet_test_`, and neither
    /// environment accepts the other's keys
    #[arg(long, env = "PETSTORE_ENVIRONMENT", default_value = "production", value_name = "NAME")]
    pub environment: Environment,
}

/// Returns the settings of a command with these flags, without the program's name. The environment's
/// variables and the defaults complete them.
///
/// # Errors
///
/// If a flag or a variable cannot be used.
pub fn from_flags<S: clap::Args, F: Into<OsString>>(
    flags: impl IntoIterator<Item = F>,
) -> Result<S, clap::Error> {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Flags<S: clap::Args> {
        #[command(flatten)]
        settings: S,
    }
    <Flags<S> as clap::Parser>::try_parse_from(flags.into_iter().map(Into::into)).map(|flags| flags.settings)
}
