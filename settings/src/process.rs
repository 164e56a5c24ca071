//! Settings of every process of the service: the admin port, the shutdown, the log and traces.

use std::{num::NonZeroUsize, path::PathBuf, thread, time::Duration};

use clap::builder::TypedValueParser;
use petstore_http_server::Certificate;
use petstore_telemetry::{logs::LogFormat, traces::OtlpEndpoint};

use super::{
    HostName, InvalidSetting, ListenAddr, SecretUrl, files,
    value::{duration, duration_or_zero, is_second, whole_number},
};

/// Settings of every process of the service: the admin port, the shutdown, the log and traces.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessSettings {
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
    pub admin_host: Vec<HostName>,

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
