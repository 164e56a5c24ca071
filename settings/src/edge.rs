//! Ports of REST and its clients, and the place where requests are counted.

use std::{num::NonZeroU16, path::PathBuf, time::Duration};

use clap::ArgAction;
use petstore_caller::api_key::Environment;
use petstore_caller::client_address::{Cidr, TrustedProxies};
use petstore_clock::Clock;
use petstore_gateway::{CorsOrigin, GatewayOptions};
use petstore_http_server::Certificate;
use petstore_rate_limit::{OnRedisFailure, RedisDeadlines, RedisLimiter, RedisSettings, RedisUrl};
use petstore_telemetry::traces::Traces;

use super::{
    InvalidSetting, ListenAddr,
    addr::addr_or_off,
    files::{self, SecretUrl},
    value::{duration, is_second, whole_number},
};

/// Ports of REST, and its clients.
#[derive(Clone, Debug, clap::Args)]
pub struct EdgeSettings {
    /// Address and port for REST over HTTP/1.1, without encryption; `off` serves HTTPS only
    #[arg(long, env = "PETSTORE_HTTP_ADDR", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    #[arg(value_parser = addr_or_off)]
    pub http_addr: AddrOrOff,

    /// Address and port for REST over HTTPS, with HTTP/2 or HTTP/1.1; requires --https-cert and --https-key
    #[arg(long, env = "PETSTORE_HTTPS_ADDR", requires = "https_cert", value_name = "ADDR")]
    pub https_addr: Option<ListenAddr>,

    /// File with the certificate of the HTTPS port and its intermediate certificates, in PEM. It is read
    /// again when it changes
    #[arg(long, env = "PETSTORE_HTTPS_CERT", value_name = "FILE")]
    #[arg(requires = "https_key", requires = "https_addr")]
    pub https_cert: Option<PathBuf>,

    /// File with the private key of --https-cert, in PEM
    #[arg(long, env = "PETSTORE_HTTPS_KEY", requires = "https_cert", value_name = "FILE")]
    pub https_key: Option<PathBuf>,

    /// Address of a reverse proxy, or block of addresses, whose X-Forwarded-For, X-Forwarded-Prefix and
    /// `traceparent` are trusted, but not with `--proxy-protocol on`; may be repeated, separated by commas in
    /// the variable
    #[arg(long, env = "PETSTORE_TRUSTED_PROXY", value_delimiter = ',', value_name = "CIDR")]
    pub trusted_proxy: Vec<Cidr>,

    /// `on` takes REST connections only from a --trusted-proxy, each with a PROXY header (version 1 or 2)
    /// that names the client
    #[arg(long, env = "PETSTORE_PROXY_PROTOCOL", default_value = "off", value_name = "SWITCH")]
    #[arg(requires_if("on", "trusted_proxy"))]
    #[arg(action = ArgAction::Set, value_parser = is_second(["off", "on"]))]
    pub proxy_protocol: bool,

    /// Time after which a connection without a request is closed. A proxy in front must use a shorter one
    #[arg(long, env = "PETSTORE_KEEP_ALIVE_TIMEOUT", default_value = "75s", value_name = "TIME")]
    #[arg(value_parser = duration)]
    pub keep_alive_timeout: Duration,

    /// Origin whose web pages may read responses (CORS), such as `https://shop.example`; may be repeated,
    /// separated by commas in the variable
    #[arg(long, env = "PETSTORE_CORS_ORIGIN", value_delimiter = ',', value_name = "ORIGIN")]
    #[arg(value_parser = SecretUrl::<CorsOrigin>::default())]
    pub cors_origin: Vec<CorsOrigin>,

    /// Bans of API keys that keep sending after 429; `off` also ignores the bans in force
    #[arg(long, env = "PETSTORE_BANS", default_value = "on", value_name = "SWITCH")]
    #[arg(action = ArgAction::Set, value_parser = is_second(["off", "on"]))]
    pub bans: bool,
}

/// Address of a port, or `None` for no port.
pub type AddrOrOff = Option<ListenAddr>;

impl EdgeSettings {
    /// Returns the names of the files with the certificate and its key.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.https_cert, &self.https_key].into_iter().flatten()
    }

    /// Returns the certificate of the HTTPS port, if that is served.
    ///
    /// # Errors
    ///
    /// If the files cannot be used.
    pub fn certificate(&self) -> Result<Option<Certificate>, InvalidSetting> {
        let (certificate, key) = (self.https_cert.as_deref(), self.https_key.as_deref());
        files::https_certificate(("--https-cert", certificate), ("--https-key", key))
    }

    /// Returns the proxies that may name their clients.
    pub fn trusted_proxies(&self) -> TrustedProxies {
        TrustedProxies::new(self.trusted_proxy.clone())
    }

    /// Returns the options of a gateway in this environment.
    pub fn gateway(&self, environment: Environment, traces: Traces) -> GatewayOptions {
        // A balancer of connections does not know the fields in them: they are all the client's own.
        let trusted_proxies =
            if self.proxy_protocol { TrustedProxies::default() } else { self.trusted_proxies() };
        GatewayOptions {
            environment,
            trusted_proxies,
            cors_origins: self.cors_origin.clone(),
            bans: self.bans,
            traces,
        }
    }
}

/// Place where requests are counted: Redis, or the process itself.
#[derive(Clone, Debug, clap::Args)]
pub struct LimiterSettings {
    /// URL of the Redis in which all gateways count: `redis://HOST:PORT/DATABASE`, `rediss://` for TLS, or
    /// `unix:///PATH` on one machine. Repeated for the nodes of a Redis Cluster; separated by commas in the
    /// variable. Without it each process counts by itself. A URL with a password is accepted only from the
    /// variable or from --redis-url-file
    #[arg(
        long,
        env = "PETSTORE_REDIS_URL",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "URL"
    )]
    #[arg(value_parser = SecretUrl::<RedisUrl>::default())]
    pub redis_url: Vec<RedisUrl>,

    /// File with the URL of Redis, or those of a Cluster's nodes, one per line, mode 0600
    #[arg(long, env = "PETSTORE_REDIS_URL_FILE", conflicts_with = "redis_url", value_name = "FILE")]
    pub redis_url_file: Option<PathBuf>,

    /// Number of gateways that count in one Redis. Each admits its share while that is unreachable, and
    /// counts the first failed authentications of an address alone
    #[arg(long, env = "PETSTORE_GATEWAYS", default_value = "1", value_name = "NUMBER")]
    #[arg(value_parser = whole_number(NonZeroU16::MIN..=NonZeroU16::MAX))]
    pub gateways: NonZeroU16,

    /// Policy while Redis is unreachable: local (each gateway admits its share), open (nothing is limited,
    /// bans stay in force) or closed (all requests get 503)
    #[arg(long, env = "PETSTORE_ON_REDIS_FAILURE", default_value = "local", value_name = "POLICY")]
    pub on_redis_failure: OnRedisFailure,

    /// Deadlines of calls to Redis. There is no flag: a gateway that waits longer for Redis is better off
    /// without it.
    #[arg(skip)]
    pub redis_deadlines: RedisDeadlines,

    /// `true` if counts in Redis are by the process's clock instead of Redis's own, which gateways share.
    /// There is no flag: the clocks of several machines differ.
    #[arg(skip)]
    pub redis_by_process_clock: bool,
}

impl LimiterSettings {
    /// Returns the limiter that counts in Redis, if there is one. It has not connected yet.
    ///
    /// # Errors
    ///
    /// If a URL or the file cannot be used.
    pub fn redis(&self, clock: &Clock) -> Result<Option<RedisLimiter>, InvalidSetting> {
        let urls = self.redis_urls()?;
        if urls.is_empty() {
            return Ok(None);
        }
        let clock = self.redis_by_process_clock.then(|| clock.clone());
        let deadlines = self.redis_deadlines;
        let limiter = RedisLimiter::new(RedisSettings { urls, key_prefix: "pet:", deadlines, clock });
        limiter.map(Some).map_err(|reason| InvalidSetting::new("--redis-url", reason))
    }

    /// Returns the URLs of Redis, from the file if one is given; none without Redis.
    fn redis_urls(&self) -> Result<Vec<RedisUrl>, InvalidSetting> {
        files::urls(&self.redis_url, ("--redis-url-file", self.redis_url_file.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Flags {
        #[command(flatten)]
        limiter: LimiterSettings,
    }

    fn urls(flags: &[&str]) -> Vec<String> {
        let settings = Flags::try_parse_from(flags).unwrap().limiter;
        settings.redis_urls().unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_nodes_of_a_cluster_are_several_urls() {
        let nodes = ["redis://a:1/0", "redis://b:2/0"];
        assert_eq!(urls(&["--redis-url", "redis://a:1", "--redis-url", "redis://b:2"]), nodes);
        assert_eq!(urls(&["--redis-url", "redis://a:1,redis://b:2"]), nodes);

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("urls");
        fs::write(&file, "redis://:SECRET@a:1\nredis://:SECRET@b:2\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(urls(&["--redis-url-file", file.to_str().unwrap()]), nodes);
    }
}
