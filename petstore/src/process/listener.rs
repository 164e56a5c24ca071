//! Ports of a process, bound before its parts start, and their shares of the file descriptors.

mod unix;

use std::{fmt, io, net::SocketAddr};

use petstore_command_line::output::reason;
use petstore_grpc_server::Listener;
use petstore_http_server::Certificate;
use petstore_settings::{EdgeSettings, GrpcAddr, InvalidSetting, ListenAddr, ProcessSettings};
use rustix::process::{Resource, getrlimit};
use tokio::{net::TcpListener, task::spawn_blocking};

pub(crate) use self::unix::SocketFile;
use super::ProcessError;

/// Bound port, and its address with the real number if 0 was requested.
type Port = (TcpListener, SocketAddr);

/// Bound ports of HTTP, at least one.
pub(crate) struct HttpPorts {
    pub(crate) http: Option<Port>,
    pub(crate) https: Option<(Port, Certificate)>,
}

/// Bound port or socket of gRPC.
pub(crate) struct BoundGrpc {
    pub(crate) listener: Listener,
    pub(crate) addr: GrpcAddr,
    /// Socket file, dropped when the socket is no longer served.
    pub(crate) file: Option<SocketFile>,
}

/// Binds the address in the setting. If it is a name, the first of its addresses that can be bound is used.
pub(crate) async fn bind(setting: &'static str, addr: &ListenAddr) -> Result<Port, ProcessError> {
    let addrs = addr.resolve().await.map_err(|error| {
        InvalidSetting::new(setting, format!("cannot resolve {addr}: {}", reason(&error)))
    })?;
    let failed = |source: io::Error| refused(setting, addr, &source);
    let listener = TcpListener::bind(addrs.as_slice()).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok((listener, addr))
}

/// Binds the port or the socket of `--grpc-addr`.
pub(crate) async fn bind_grpc(addr: &GrpcAddr) -> Result<BoundGrpc, ProcessError> {
    let setting = "--grpc-addr";
    let (listener, addr, file) = match addr {
        GrpcAddr::Tcp(addr) => {
            let (listener, addr) = bind(setting, addr).await?;
            (Listener::Tcp(listener), GrpcAddr::Tcp(ListenAddr::Ip(addr)), None)
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

/// Binds `--admin-addr` and `--admin-https-addr`, and reads the certificate. Returns the address of the
/// first.
pub(super) async fn bind_admin(settings: &ProcessSettings) -> Result<(SocketAddr, HttpPorts), ProcessError> {
    let http = bind("--admin-addr", &settings.admin_addr).await?;
    let https = ("--admin-https-addr", settings.admin_https_addr.as_ref(), settings.admin_certificate()?);
    Ok((http.1, HttpPorts { http: Some(http), https: bind_https(https).await? }))
}

/// Binds `--http-addr` and `--https-addr`, and reads the certificate.
pub(crate) async fn bind_rest(settings: &EdgeSettings) -> Result<HttpPorts, ProcessError> {
    let http = match (&settings.http_addr, &settings.https_addr) {
        (Some(addr), _) => Some(bind("--http-addr", addr).await?),
        (None, Some(_)) => None,
        (None, None) => {
            let reason = "`off` needs --https-addr, so that REST has a port";
            return Err(InvalidSetting::new("--http-addr", reason).into());
        }
    };
    let https = ("--https-addr", settings.https_addr.as_ref(), settings.certificate()?);
    Ok(HttpPorts { http, https: bind_https(https).await? })
}

async fn bind_https(
    (setting, addr, certificate): (&'static str, Option<&ListenAddr>, Option<Certificate>),
) -> Result<Option<(Port, Certificate)>, ProcessError> {
    // clap requires both or none.
    let Some((addr, certificate)) = addr.zip(certificate) else { return Ok(None) };
    Ok(Some((bind(setting, addr).await?, certificate)))
}

fn refused(setting: &'static str, addr: &dyn fmt::Display, error: &io::Error) -> ProcessError {
    ProcessError::Listen { setting, addr: addr.to_string(), reason: reason(error) }
}

/// Maximum number of connections of each part of the process, so that no part uses up the file descriptors of
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Connections to the ports of REST together.
    pub(crate) rest: usize,
    /// Connections to the ports of REST from one client address.
    pub(crate) rest_per_address: usize,
    /// Connections to the gRPC port.
    pub(crate) grpc: usize,
    /// Connections to the admin port.
    pub(crate) admin: usize,
}

/// Limits if there are plenty of file descriptors. Memory bounds connections, too.
const MAX: ConnectionLimits =
    ConnectionLimits { rest: 10_000, rest_per_address: 1_024, grpc: 1_024, admin: 64 };
/// File descriptors for the store, Redis, the core, logs, traces and files.
const MAX_OTHER: usize = 128;

impl ConnectionLimits {
    /// Returns the limits for the file descriptors that this process may open.
    pub(crate) fn for_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        Self::for_descriptors(limit.unwrap_or(usize::MAX)) // `None`: unlimited
    }

    /// Logs the limits.
    pub(crate) fn log(self) {
        let Self { rest, rest_per_address, grpc, admin } = self;
        let open_files = getrlimit(Resource::Nofile).current;
        tracing::info!(open_files, rest, rest_per_address, grpc, admin, "connection limits");
    }

    fn for_descriptors(descriptors: usize) -> Self {
        let grpc = (descriptors / 8).min(MAX.grpc);
        let admin = (descriptors / 16).min(MAX.admin);
        let kept = (descriptors / 2).min(MAX_OTHER) + grpc + admin;
        let rest = descriptors.saturating_sub(kept).min(MAX.rest);
        Self { rest, rest_per_address: (rest / 2).min(MAX.rest_per_address), grpc, admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_refused_with_the_setting_and_the_reason() {
        let taken = bind("--http-addr", &"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let refusal = bind("--http-addr", &ListenAddr::Ip(taken.1)).await.unwrap_err().to_string();
        assert_eq!(refusal, format!("--http-addr: cannot listen on {}: address already in use", taken.1));
    }

    #[test]
    fn with_many_descriptors_each_component_has_its_maximum() {
        assert_eq!(ConnectionLimits::for_descriptors(65_536), MAX);
        assert_eq!(ConnectionLimits::for_descriptors(usize::MAX), MAX);
    }

    #[test]
    fn with_few_descriptors_each_component_has_its_share() {
        let with_1024 = ConnectionLimits { rest: 704, rest_per_address: 352, grpc: 128, admin: 64 };
        assert_eq!(ConnectionLimits::for_descriptors(1_024), with_1024);
        for descriptors in [64, 100, 256, 1_000, 5_000] {
            let ConnectionLimits { rest, rest_per_address, grpc, admin } =
                ConnectionLimits::for_descriptors(descriptors);
            assert!(rest + grpc + admin + 32 <= descriptors, "{descriptors}");
            assert!(rest_per_address > 0 && rest_per_address < rest, "{descriptors}");
            assert!(grpc > 0 && admin > 0, "{descriptors}");
        }
    }
}
