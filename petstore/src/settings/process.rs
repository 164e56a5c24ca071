//! Settings of every process of the service: the admin port, the shutdown, the log and traces.

use std::{num::NonZeroUsize, str::FromStr, thread, time::Duration};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use petstore_telemetry::{logs::LogFormat, traces::OtlpEndpoint};

use super::{ListenAddr, duration};

/// Maximum number of cores of a small machine.
const SMALL_MACHINE: usize = 2;
const MAX_WORKER_THREADS: usize = 1_024;

/// Settings of every process of the service: the admin port, the shutdown, the log and traces.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessSettings {
    /// Where /livez, /readyz, /metrics and /log-level are served. For operators only: do not make it
    /// public
    #[arg(long, env = "PETSTORE_ADMIN_ADDR", default_value = "127.0.0.1:9090", value_name = "ADDR")]
    pub admin_addr: ListenAddr,

    /// A host name under which the admin port answers more than /livez and /readyz, besides IP addresses,
    /// localhost and names without a dot; may be repeated, in the variable separated by commas
    #[arg(long, env = "PETSTORE_ADMIN_HOST", value_delimiter = ',', value_name = "NAME")]
    pub admin_host: Vec<HostName>,

    /// How long requests are still accepted after SIGTERM, with readiness down, so that load balancers notice
    #[arg(long, env = "PETSTORE_DRAIN_DELAY", default_value = "0s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_or_zero)]
    pub drain_delay: Duration,

    /// How long requests in flight may take to finish after that; then they are cut off
    #[arg(long, env = "PETSTORE_DRAIN_DEADLINE", default_value = "20s", value_name = "TIME")]
    #[arg(value_parser = duration::parse)]
    pub drain_deadline: Duration,

    /// How many threads serve requests, 1 to 1024; by default one on a machine of one or two cores, and one
    /// per core on a larger one
    #[arg(long, env = "PETSTORE_WORKER_THREADS", value_name = "NUMBER", value_parser = worker_threads)]
    pub worker_threads: Option<NonZeroUsize>,

    /// What is logged to stderr: error, warn, info, debug or trace, also by module, as in
    /// `info,petstore_core=debug`. /log-level on the admin port changes it while the process runs
    #[arg(long, env = "PETSTORE_LOG_LEVEL", default_value = "info", value_name = "FILTER")]
    pub log_level: String,

    /// The format of the log: pretty for people, json for programs
    #[arg(long, env = "PETSTORE_LOG_FORMAT", default_value = "pretty", value_name = "FORMAT")]
    #[arg(value_parser = log_format())]
    pub log_format: LogFormat,

    /// Where traces are sent over OTLP: the gRPC port of a receiver, such as `http://127.0.0.1:4317`. Without
    /// it nothing is traced
    #[arg(long, env = "PETSTORE_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<OtlpEndpoint>,

    /// The part of the requests that is traced, from 0 to 1, unless the sender decides on it (in
    /// `traceparent`)
    #[arg(long, env = "PETSTORE_TRACE_RATIO", default_value = "0.01", value_name = "NUMBER")]
    #[arg(value_parser = ratio)]
    pub trace_ratio: f64,
}

impl ProcessSettings {
    /// Returns the number of threads that serve requests. On a small machine a second one costs more, in
    /// wake-ups, than it gives: the database, Redis or the other half of the service needs the other core.
    pub(crate) fn worker_threads(&self) -> NonZeroUsize {
        self.worker_threads.unwrap_or_else(|| {
            let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            if cores.get() <= SMALL_MACHINE { NonZeroUsize::MIN } else { cores }
        })
    }
}

fn worker_threads(written: &str) -> Result<NonZeroUsize, String> {
    let number = written.parse().ok().filter(|number: &NonZeroUsize| number.get() <= MAX_WORKER_THREADS);
    number.ok_or_else(|| format!("must be a number from 1 to {MAX_WORKER_THREADS}"))
}

/// Host name, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let is_name = !written.is_empty()
            && written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if is_name {
            Ok(Self(written.trim_end_matches('.').to_ascii_lowercase()))
        } else {
            Err("must be a host name without a port, such as gateway.example")
        }
    }
}

impl HostName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    let formats = PossibleValuesParser::new(["pretty", "json"]);
    formats.map(|written| if written == "json" { LogFormat::Json } else { LogFormat::Pretty })
}

fn ratio(written: &str) -> Result<f64, &'static str> {
    let ratio = written.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("must be a number from 0 to 1, such as 0.01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_has_a_bound() {
        for (written, is_number) in
            [("1", true), ("1024", true), ("0", false), ("1025", false), ("many", false)]
        {
            assert_eq!(worker_threads(written).is_ok(), is_number, "{written}");
        }
    }

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
