//! What every process of the service has: an admin port, an orderly end, a log and traces.

use std::time::Duration;

use clap::ValueEnum;

use super::{HostName, ListenAddr, TraceSettings, duration};

/// What every process of the service has: an admin port, an orderly end, a log and traces.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessSettings {
    /// Where /livez, /readyz, /metrics, /limits and /log-level are served. It is for operators: keep it from the
    /// public
    #[arg(long, env = "PETSTORE_ADMIN_ADDR", default_value = "127.0.0.1:9090", value_name = "ADDR")]
    pub admin_addr: ListenAddr,

    /// A name under which the admin port may be asked for more than /livez and /readyz, besides IP addresses, localhost
    /// and names without a dot; may be repeated, in the variable separated by commas
    #[arg(long, env = "PETSTORE_ADMIN_HOST", value_delimiter = ',', value_name = "NAME")]
    pub admin_host: Vec<HostName>,

    /// How long requests are still accepted after SIGTERM, with readiness down, so that load balancers notice
    #[arg(long, env = "PETSTORE_DRAIN_DELAY", default_value = "0s", value_parser = duration::parse_or_zero, value_name = "TIME")]
    pub drain_delay: Duration,

    /// How long requests in flight may take to finish after that; then they are cut off
    #[arg(long, env = "PETSTORE_DRAIN_DEADLINE", default_value = "20s", value_parser = duration::parse, value_name = "TIME")]
    pub drain_deadline: Duration,

    /// What is logged to stderr, until it is changed at /log-level on the admin port: error, warn, info, debug or trace, also by module, as in
    /// `info,petstore_core=debug`
    #[arg(long, env = "PETSTORE_LOG_LEVEL", default_value = "info", value_name = "FILTER")]
    pub log_level: String,

    /// How lines of the log are written: pretty for people, json for programs
    #[arg(long, env = "PETSTORE_LOG_FORMAT", value_enum, default_value = "pretty", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Whether requests are traced.
    #[command(flatten)]
    pub traces: TraceSettings,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// For programs: a JSON object a line.
    Json,
}
