//! Where REST is served, and to whom.

use std::net::SocketAddr;

use petstore_api_key::Environment;
use petstore_gateway::{
    CorsOrigin, GatewaySettings,
    client_address::{Cidr, TrustedProxies},
};

use super::socket_addr;

/// Where REST is served, and to whom.
#[derive(Clone, Debug, clap::Args)]
pub struct EdgeSettings {
    /// Where REST is served
    #[arg(long, env = "PETSTORE_HTTP_ADDR", default_value = "127.0.0.1:8080", value_parser = socket_addr, value_name = "ADDR")]
    pub http_addr: SocketAddr,

    /// A reverse proxy, or a block of them, whose X-Forwarded-For is believed; may be repeated, in the variable
    /// separated by commas
    #[arg(long, env = "PETSTORE_TRUSTED_PROXY", value_delimiter = ',', value_name = "CIDR")]
    pub trusted_proxy: Vec<Cidr>,

    /// An origin whose web pages may read answers (CORS), such as `https://shop.example`; may be repeated, in
    /// the variable separated by commas
    #[arg(long, env = "PETSTORE_CORS_ORIGIN", value_delimiter = ',', value_name = "ORIGIN")]
    pub cors_origin: Vec<CorsOrigin>,
}

impl EdgeSettings {
    pub(crate) fn gateway(&self, environment: Environment) -> GatewaySettings {
        GatewaySettings {
            environment,
            trusted_proxies: TrustedProxies::new(self.trusted_proxy.clone()),
            cors_origins: self.cors_origin.clone(),
        }
    }
}
