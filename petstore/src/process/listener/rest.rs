//! The ports of REST.

use std::net::SocketAddr;

use petstore_gateway::server::{Certificate, CertificateFiles};
use tokio::task::spawn_blocking;

use super::{super::StartError, Bound, bind};
use crate::settings::{EdgeSettings, InvalidSetting, PlainAddr};

/// Where REST will be served, bound: at one port at least.
#[derive(Debug)]
pub(crate) struct BoundRest {
    pub(crate) http: Option<Bound>,
    pub(crate) https: Option<(Bound, Certificate)>,
}

/// Where REST is served; the real ports, if 0 was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RestAddrs {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) https: Option<SocketAddr>,
}

impl BoundRest {
    pub(crate) fn addrs(&self) -> RestAddrs {
        RestAddrs {
            http: self.http.as_ref().map(|port| port.addr),
            https: self.https.as_ref().map(|(port, _)| port.addr),
        }
    }
}

/// Binds `--http-addr` and `--https-addr`, and reads the certificate.
pub(crate) async fn bind_rest(settings: &EdgeSettings) -> Result<BoundRest, StartError> {
    let http = match (&settings.http_addr, &settings.https_addr) {
        (PlainAddr::At(addr), _) => Some(bind("--http-addr", addr).await?),
        (PlainAddr::Off, Some(_)) => None,
        (PlainAddr::Off, None) => {
            return Err(
                InvalidSetting::new("--http-addr", "may be off only where --https-addr is given").into()
            );
        }
    };
    let https = match (&settings.https_addr, &settings.https_cert, &settings.https_key) {
        (Some(addr), Some(certificate), Some(key)) => {
            let files = CertificateFiles { certificate: certificate.clone(), key: key.clone() };
            let certificate = read(files).await?;
            Some((bind("--https-addr", addr).await?, certificate))
        }
        _ => None, // clap has seen to it that they come together
    };
    Ok(BoundRest { http, https })
}

async fn read(files: CertificateFiles) -> Result<Certificate, InvalidSetting> {
    match spawn_blocking(|| Certificate::read(files)).await {
        Ok(certificate) => certificate.map_err(|error| {
            let setting = if error.is_in_key_file { "--https-key" } else { "--https-cert" };
            InvalidSetting::new(setting, error.to_string())
        }),
        Err(panic) => Err(InvalidSetting::new("--https-cert", panic.to_string())),
    }
}
