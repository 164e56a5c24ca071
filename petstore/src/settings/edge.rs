//! Addresses at which REST is served, and who may use it.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use petstore_api_key::Environment;
use petstore_gateway::{
    CorsOrigin, GatewayOptions,
    client_address::{Cidr, TrustedProxies},
};
use petstore_telemetry::traces::Traces;

use super::{ListenAddr, duration};

/// Addresses at which REST is served, and who may use it.
#[derive(Clone, Debug, clap::Args)]
pub struct EdgeSettings {
    /// Where REST is served without encryption, over HTTP/1.1; off to serve it over HTTPS only
    #[arg(long, env = "PETSTORE_HTTP_ADDR", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub http_addr: PlainAddr,

    /// Where REST is served over HTTPS, as HTTP/2 or HTTP/1.1; needs --https-cert and --https-key
    #[arg(long, env = "PETSTORE_HTTPS_ADDR", requires = "https_cert", value_name = "ADDR")]
    pub https_addr: Option<ListenAddr>,

    /// The certificate of the HTTPS port with its intermediate certificates, in PEM. It is read again when
    /// the file changes
    #[arg(long, env = "PETSTORE_HTTPS_CERT", value_name = "FILE")]
    #[arg(requires = "https_key", requires = "https_addr")]
    pub https_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM
    #[arg(long, env = "PETSTORE_HTTPS_KEY", requires = "https_cert", value_name = "FILE")]
    pub https_key: Option<PathBuf>,

    /// A reverse proxy, or a block of addresses of proxies, whose X-Forwarded-For is trusted; may be
    /// repeated, in the variable separated by commas
    #[arg(long, env = "PETSTORE_TRUSTED_PROXY", value_delimiter = ',', value_name = "CIDR")]
    pub trusted_proxy: Vec<Cidr>,

    /// How long a connection may be idle between two requests before it is closed. Set a proxy in front of
    /// the service to a shorter time
    #[arg(long, env = "PETSTORE_KEEP_ALIVE_TIMEOUT", default_value = "75s", value_name = "TIME")]
    #[arg(value_parser = duration::parse)]
    pub keep_alive_timeout: Duration,

    /// An origin whose web pages may read responses (CORS), such as `https://shop.example`; may be repeated,
    /// in the variable separated by commas
    #[arg(long, env = "PETSTORE_CORS_ORIGIN", value_delimiter = ',', value_name = "ORIGIN")]
    pub cors_origin: Vec<CorsOrigin>,

    /// Whether an API key that keeps sending after 429 is banned for a while; off also ignores the bans in
    /// force
    #[arg(long, env = "PETSTORE_BANS", default_value = "on", value_enum, value_name = "SWITCH")]
    pub bans: Switch,
}

/// Switch that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Address at which HTTP is served without encryption, if it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainAddr {
    /// Not served.
    Off,
    /// Served at this address.
    At(ListenAddr),
}

impl FromStr for PlainAddr {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        if written == "off" { Ok(Self::Off) } else { written.parse().map(Self::At) }
    }
}

impl fmt::Display for PlainAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(addr) => addr.fmt(f),
        }
    }
}

impl EdgeSettings {
    pub(crate) fn trusted_proxies(&self) -> TrustedProxies {
        TrustedProxies::new(self.trusted_proxy.clone())
    }

    pub(crate) fn gateway(&self, environment: Environment, traces: Traces) -> GatewayOptions {
        GatewayOptions {
            environment,
            trusted_proxies: self.trusted_proxies(),
            cors_origins: self.cors_origin.clone(),
            bans: self.bans == Switch::On,
            traces,
        }
    }
}
