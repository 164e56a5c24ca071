//! Ports of REST, and its clients.

use std::{path::PathBuf, time::Duration};

use clap::ArgAction;
use petstore_api_key::Environment;
use petstore_gateway::{
    CorsOrigin, GatewayOptions,
    client_address::{Cidr, TrustedProxies},
};
use petstore_telemetry::traces::Traces;

use super::{
    ListenAddr,
    addr::addr_or_off,
    value::{duration, is_second},
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

    /// Address of a reverse proxy, or block of addresses, whose X-Forwarded-For is trusted; may be repeated,
    /// separated by commas in the variable
    #[arg(long, env = "PETSTORE_TRUSTED_PROXY", value_delimiter = ',', value_name = "CIDR")]
    pub trusted_proxy: Vec<Cidr>,

    /// Time after which a connection without a request is closed. A proxy in front of the service must use a
    /// shorter one
    #[arg(long, env = "PETSTORE_KEEP_ALIVE_TIMEOUT", default_value = "75s", value_name = "TIME")]
    #[arg(value_parser = duration)]
    pub keep_alive_timeout: Duration,

    /// Origin whose web pages may read responses (CORS), such as `https://shop.example`; may be repeated,
    /// separated by commas in the variable
    #[arg(long, env = "PETSTORE_CORS_ORIGIN", value_delimiter = ',', value_name = "ORIGIN")]
    pub cors_origin: Vec<CorsOrigin>,

    /// Bans of API keys that keep sending after 429; `off` also ignores the bans in force
    #[arg(long, env = "PETSTORE_BANS", default_value = "on", value_name = "SWITCH")]
    #[arg(action = ArgAction::Set, value_parser = is_second(["off", "on"]))]
    pub bans: bool,
}

/// Address of a port, or `None` for no port.
pub type AddrOrOff = Option<ListenAddr>;

impl EdgeSettings {
    pub(crate) fn trusted_proxies(&self) -> TrustedProxies {
        TrustedProxies::new(self.trusted_proxy.clone())
    }

    pub(crate) fn gateway(&self, environment: Environment, traces: Traces) -> GatewayOptions {
        GatewayOptions {
            environment,
            trusted_proxies: self.trusted_proxies(),
            cors_origins: self.cors_origin.clone(),
            bans: self.bans,
            traces,
        }
    }
}
