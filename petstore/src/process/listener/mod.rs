//! Ports, bound by whoever composes the process.

mod rest;
mod unix;

use std::{fmt, io, net::SocketAddr};

use petstore_core::grpc;
use tokio::{net::TcpListener, task::spawn_blocking};

pub(crate) use self::{
    rest::{BoundRest, RestAddrs, bind_rest},
    unix::SocketFile,
};
use super::StartError;
use crate::{
    os_error,
    settings::{GrpcAddr, InvalidSetting, ListenAddr},
};

/// A bound port, with its real number if 0 was asked for.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) addr: SocketAddr,
}

/// Where gRPC will be served, bound.
#[derive(Debug)]
pub(crate) struct BoundGrpc {
    pub(crate) listener: grpc::Listener,
    pub(crate) addr: GrpcAddr,
    /// To be dropped when the socket is no longer served.
    pub(crate) file: Option<SocketFile>,
}

/// Binds the address that the setting names; of those that a name stands for, the first that can be.
pub(crate) async fn bind(setting: &'static str, addr: &ListenAddr) -> Result<Bound, StartError> {
    let addrs = addr.resolve().await.map_err(|error| {
        InvalidSetting::new(setting, format!("cannot resolve {addr}: {}", os_error::reason(&error)))
    })?;
    let failed = |source: io::Error| refused(setting, addr, &source);
    let listener = TcpListener::bind(addrs.as_slice()).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, addr })
}

/// Binds the port or the socket of `--grpc-addr`.
pub(crate) async fn bind_grpc(addr: &GrpcAddr) -> Result<BoundGrpc, StartError> {
    let setting = "--grpc-addr";
    match addr {
        GrpcAddr::Tcp(addr) => {
            let Bound { listener, addr } = bind(setting, addr).await?;
            Ok(BoundGrpc {
                listener: grpc::Listener::Tcp(listener),
                addr: GrpcAddr::Tcp(addr.into()),
                file: None,
            })
        }
        GrpcAddr::Unix(path) => {
            let wanted = path.clone();
            let bound = spawn_blocking(move || unix::bind(&wanted)).await.map_err(io::Error::other).flatten();
            let (listener, file) = bound.map_err(|error| refused(setting, addr, &error))?;
            Ok(BoundGrpc { listener: grpc::Listener::Unix(listener), addr: addr.clone(), file: Some(file) })
        }
    }
}

fn refused(setting: &'static str, addr: &dyn fmt::Display, error: &io::Error) -> StartError {
    StartError::Listen { setting, addr: addr.to_string(), reason: os_error::reason(error) }
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
