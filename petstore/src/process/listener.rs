//! Ports of a process, bound before its parts start.

mod unix;

use std::{fmt, io, net::SocketAddr};

use petstore_command_line::output::reason;
use petstore_grpc_server::Listener;
use petstore_http_server::Certificate;
use petstore_settings::{EdgeSettings, GrpcAddr, InvalidSetting, ListenAddr, ProcessSettings};
use tokio::{net::TcpListener, task::spawn_blocking};

pub(crate) use self::unix::SocketFile;
use super::ProcessError;

/// Bound port, with its real number if 0 was requested.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) addr: SocketAddr,
}

/// Bound port or socket of gRPC.
#[derive(Debug)]
pub(crate) struct BoundGrpc {
    pub(crate) listener: Listener,
    pub(crate) addr: GrpcAddr,
    /// Socket file, dropped when the socket is no longer served.
    pub(crate) file: Option<SocketFile>,
}

/// Binds the address in the setting. If it is a name, the first of its addresses that can be bound is used.
pub(crate) async fn bind(setting: &'static str, addr: &ListenAddr) -> Result<Bound, ProcessError> {
    let addrs = addr.resolve().await.map_err(|error| {
        InvalidSetting::new(setting, format!("cannot resolve {addr}: {}", reason(&error)))
    })?;
    let failed = |source: io::Error| refused(setting, addr, &source);
    let listener = TcpListener::bind(addrs.as_slice()).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, addr })
}

/// Binds the port or the socket of `--grpc-addr`.
pub(crate) async fn bind_grpc(addr: &GrpcAddr) -> Result<BoundGrpc, ProcessError> {
    let setting = "--grpc-addr";
    let (listener, addr, file) = match addr {
        GrpcAddr::Tcp(addr) => {
            let Bound { listener, addr } = bind(setting, addr).await?;
            (Listener::Tcp(listener), GrpcAddr::Tcp(addr.into()), None)
        }
        GrpcAddr::Unix(path) => {
            let wanted = path.clone();
            let bound = spawn_blocking(move || unix::bind(&wanted)).await.map_err(io::Error::other).flatten();
            let (listener, file) = bound.map_err(|error| refused(setting, addr, &error))?;
            (Listener::Unix(listener), addr.clone(), Some(file))
        }
    };
    Ok(BoundGrpc { listener, addr, file })
}

/// Bound ports of the administration.
#[derive(Debug)]
pub(super) struct BoundAdmin {
    pub(super) http: Bound,
    pub(super) https: Option<(Bound, Certificate)>,
}

/// Binds `--admin-addr` and `--admin-https-addr`, and reads the certificate.
pub(super) async fn bind_admin(settings: &ProcessSettings) -> Result<BoundAdmin, ProcessError> {
    let http = bind("--admin-addr", &settings.admin_addr).await?;
    let https = match (&settings.admin_https_addr, settings.admin_certificate()?) {
        (Some(addr), Some(certificate)) => Some((bind("--admin-https-addr", addr).await?, certificate)),
        _ => None, // clap requires both or none
    };
    Ok(BoundAdmin { http, https })
}

/// Bound ports of REST, at least one.
#[derive(Debug)]
pub(crate) struct BoundRest {
    pub(crate) http: Option<Bound>,
    pub(crate) https: Option<(Bound, Certificate)>,
}

/// Binds `--http-addr` and `--https-addr`, and reads the certificate.
pub(crate) async fn bind_rest(settings: &EdgeSettings) -> Result<BoundRest, ProcessError> {
    let http = match (&settings.http_addr, &settings.https_addr) {
        (Some(addr), _) => Some(bind("--http-addr", addr).await?),
        (None, Some(_)) => None,
        (None, None) => {
            let reason = "`off` needs --https-addr, so that REST has a port";
            return Err(InvalidSetting::new("--http-addr", reason).into());
        }
    };
    let https = match (&settings.https_addr, settings.certificate()?) {
        (Some(addr), Some(certificate)) => Some((bind("--https-addr", addr).await?, certificate)),
        _ => None, // clap requires both or none
    };
    Ok(BoundRest { http, https })
}

fn refused(setting: &'static str, addr: &dyn fmt::Display, error: &io::Error) -> ProcessError {
    ProcessError::Listen { setting, addr: addr.to_string(), reason: reason(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_refused_with_the_setting_and_the_reason() {
        let taken = bind("--http-addr", &"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let refusal = bind("--http-addr", &taken.addr.into()).await.unwrap_err().to_string();
        assert_eq!(refusal, format!("--http-addr: cannot listen on {}: address already in use", taken.addr));
    }
}
