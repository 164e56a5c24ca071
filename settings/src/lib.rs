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
mod store;
pub mod value;

use std::{ffi::OsString, num::NonZeroUsize, path::PathBuf, thread, time::Duration};

use clap::builder::TypedValueParser;
use petstore_caller::api_key::Environment;
use petstore_http_server::Certificate;
use petstore_telemetry::{logs::LogFormat, traces::OtlpEndpoint};

use self::value::{duration, duration_or_zero, is_second, whole_number};
pub use self::{
    addr::{GrpcAddr, ListenAddr, host_name},
    edge::{AddrOrOff, EdgeSettings, LimiterSettings},
    files::{SecretUrl, TokenSettings, secret_file, settings_file},
    grpc::{CoreAddressSettings, GrpcSettings},
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

/// Settings of every process of the service: the environment, the admin port, the shutdown, the log and
/// traces.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessSettings {
    /// Environment, production or staging: keys begin with `pet_live_` or `pet_test_`, and neither
    /// environment accepts the other's keys
    #[arg(long, env = "PETSTORE_ENVIRONMENT", default_value = "production", value_name = "NAME")]
    pub environment: Environment,

    /// Address and port for /livez, /readyz, /metrics, /log-level and, on a gateway, the admin API and the
    /// console. For operators only: do not make it public
    #[arg(long, env = "PETSTORE_ADMIN_ADDR", default_value = "127.0.0.1:9090", value_name = "ADDR")]
    pub admin_addr: ListenAddr,

    /// Address and port for the same over HTTPS
    #[arg(long, env = "PETSTORE_ADMIN_HTTPS_ADDR", requires = "admin_https_cert", value_name = "ADDR")]
    pub admin_https_addr: Option<ListenAddr>,

    /// File with its certificate, like --https-cert
    #[arg(long, env = "PETSTORE_ADMIN_HTTPS_CERT", value_name = "FILE")]
    #[arg(requires = "admin_https_key", requires = "admin_https_addr")]
    pub admin_https_cert: Option<PathBuf>,

    /// File with the private key, in PEM
    #[arg(long, env = "PETSTORE_ADMIN_HTTPS_KEY", requires = "admin_https_cert", value_name = "FILE")]
    pub admin_https_key: Option<PathBuf>,

    /// Time for which browsers shall use no HTTP without encryption for this host name, on any of its ports:
    /// `Strict-Transport-Security` on --https-addr and --admin-https-addr. `0s` makes browsers forget it;
    /// without this setting the field is not sent
    #[arg(long, env = "PETSTORE_HSTS", value_name = "TIME", value_parser = duration_or_zero)]
    pub hsts: Option<Duration>,

    /// Host name that the admin port accepts, besides IP addresses, localhost and names without a dot; others
    /// get 421; may be repeated, separated by commas in the variable
    #[arg(long, env = "PETSTORE_ADMIN_HOST", value_delimiter = ',', value_name = "NAME")]
    #[arg(value_parser = host_name)]
    pub admin_host: Vec<String>,

    /// Time after SIGTERM for which requests are still served, with /readyz at 503, while balancers move on
    #[arg(long, env = "PETSTORE_DRAIN_DELAY", default_value = "0s", value_name = "TIME")]
    #[arg(value_parser = duration_or_zero)]
    pub drain_delay: Duration,

    /// Time for requests in flight to finish after that; then they are cut off
    #[arg(long, env = "PETSTORE_DRAIN_DEADLINE", default_value = "20s", value_name = "TIME")]
    #[arg(value_parser = duration)]
    pub drain_deadline: Duration,

    /// Number of threads that serve requests, 1 to 1024; by default one per processor, but only
    /// one on a machine with two
    #[arg(long, env = "PETSTORE_WORKER_THREADS", value_name = "NUMBER")]
    #[arg(value_parser = whole_number(1..=1_024_usize))]
    pub worker_threads: Option<usize>,

    /// Filter of the log on stderr: error, warn, info, debug or trace, also by module, as in
    /// `info,petstore_core=debug`. /log-level on the admin port changes it while the process runs
    #[arg(long, env = "PETSTORE_LOG_LEVEL", default_value = "info", value_name = "FILTER")]
    pub log_level: String,

    /// Format of the log: pretty for people, json for programs
    #[arg(long, env = "PETSTORE_LOG_FORMAT", default_value = "pretty", value_name = "FORMAT")]
    #[arg(value_parser = log_format())]
    pub log_format: LogFormat,

    /// URL of the OTLP receiver of traces, its gRPC port, such as `http://127.0.0.1:4317`. Without it nothing
    /// is traced
    #[arg(long, env = "PETSTORE_OTLP_ENDPOINT", value_name = "URL")]
    #[arg(value_parser = SecretUrl::<OtlpEndpoint>::default())]
    pub otlp_endpoint: Option<OtlpEndpoint>,

    /// Share of the requests that is traced, from 0 to 1, unless a sender with a valid key, or a trusted
    /// proxy, decides in `traceparent`
    #[arg(long, env = "PETSTORE_TRACE_RATIO", default_value = "0.01", value_name = "NUMBER")]
    #[arg(value_parser = ratio)]
    pub trace_ratio: f64,
}

impl ProcessSettings {
    /// Returns the names of the files with the certificate of the admin port and its key.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.admin_https_cert, &self.admin_https_key].into_iter().flatten()
    }

    /// Returns the certificate of the admin port, if that is served over HTTPS.
    ///
    /// # Errors
    ///
    /// If the files cannot be used.
    pub fn admin_certificate(&self) -> Result<Option<Certificate>, InvalidSetting> {
        let (certificate, key) = (self.admin_https_cert.as_deref(), self.admin_https_key.as_deref());
        files::https_certificate(("--admin-https-cert", certificate), ("--admin-https-key", key))
    }

    /// Returns the number of threads that serve requests. On a small machine a second one costs more, in
    /// wake-ups, than it gives: the database, Redis or the other half of the service needs the other core.
    pub fn worker_threads(&self) -> usize {
        let by_cores = || match thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            1 | 2 => 1,
            cores => cores,
        };
        self.worker_threads.unwrap_or_else(by_cores)
    }
}

fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    is_second(["pretty", "json"]).map(|is_json| if is_json { LogFormat::Json } else { LogFormat::Pretty })
}

fn ratio(written: &str) -> Result<f64, &'static str> {
    let ratio = written.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("must be a number from 0 to 1, such as 0.01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_a_number_from_0_to_1() {
        for (written, value) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1e-3", 0.001)] {
            assert_eq!(ratio(written), Ok(value), "{written}");
        }
        for written in ["", "-0.1", "1.01", "NaN", "inf", "1%"] {
            assert!(ratio(written).is_err(), "{written}");
        }
    }
}
