//! Address of a core, and the credentials of both sides.

use std::path::PathBuf;

use petstore_api_key::ServiceToken;
use petstore_gateway::core_client::{self, CoreAddress, CoreTls, CoreTransport, InvalidCoreAddress};

use super::{InvalidSetting, TokenSettings, files};

/// Address of a gateway's core, and the credentials of both.
#[derive(Clone, Debug, clap::Args)]
pub struct CoreAddressSettings {
    /// Where the core is.
    #[command(flatten)]
    pub core: CoreUrlSettings,

    /// The token that is presented to the core.
    #[command(flatten)]
    pub token: TokenSettings,
}

/// Address of a core, and the certificates for TLS.
#[derive(Clone, Debug, clap::Args)]
pub struct CoreUrlSettings {
    /// The core's gRPC port: http:// or https:// with host and port, or unix:// with a path. A gateway starts
    /// also without the core, and is ready when the core has answered
    #[arg(long, env = "PETSTORE_CORE_URL", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    pub core_url: String,

    /// The authorities that may issue the core's certificate, in PEM; required for https://
    #[arg(long, env = "PETSTORE_CORE_CA", value_name = "FILE")]
    pub core_ca: Option<PathBuf>,

    /// The certificate that is presented to the core, in PEM
    #[arg(long, env = "PETSTORE_CORE_CERT", value_name = "FILE")]
    #[arg(requires = "core_key", requires = "core_ca")]
    pub core_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM
    #[arg(long, env = "PETSTORE_CORE_KEY", requires = "core_cert", value_name = "FILE")]
    pub core_key: Option<PathBuf>,
}

impl CoreAddressSettings {
    /// Returns the transport to the core. It connects when it is first used.
    pub(crate) fn connect(&self) -> Result<CoreTransport, InvalidSetting> {
        self.core.connect(self.token.token()?)
    }
}

impl CoreUrlSettings {
    /// Returns the transport to the core, with this token for every call. It connects when it is first used.
    pub(crate) fn connect(&self, token: Option<ServiceToken>) -> Result<CoreTransport, InvalidSetting> {
        let identity = match (&self.core_cert, &self.core_key) {
            (Some(certificate), Some(key)) => {
                Some(files::certified_key(("--core-cert", certificate), ("--core-key", key))?)
            }
            _ => None, // clap requires both or none
        };
        let tls = match &self.core_ca {
            Some(authority) => {
                Some(CoreTls { authority: files::certificates("--core-ca", authority)?, identity })
            }
            None => None,
        };
        core_client::connect(CoreAddress { url: self.core_url.clone(), tls, token }).map_err(|error| {
            let setting = match &error {
                InvalidCoreAddress::Url | InvalidCoreAddress::NoAuthority => "--core-url",
                InvalidCoreAddress::NotEncrypted | InvalidCoreAddress::Authority => "--core-ca",
                InvalidCoreAddress::Tls(_) => "--core-cert",
            };
            InvalidSetting::new(setting, error.to_string())
        })
    }
}
