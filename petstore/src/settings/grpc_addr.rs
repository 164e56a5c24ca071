//! Address at which gRPC is served or called.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::ListenAddr;

/// TCP address, or Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrpcAddr {
    /// Address and port.
    Tcp(ListenAddr),
    /// Absolute path of a Unix socket, written `unix:///PATH`.
    Unix(PathBuf),
}

impl GrpcAddr {
    /// Returns `true` if only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(addr) => addr.is_local(),
            Self::Unix(_) => true,
        }
    }

    /// Returns the IP address and port, if they are known: those of a bound port are.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(ListenAddr::Ip(addr)) => Some(*addr),
            Self::Tcp(ListenAddr::Name { .. }) | Self::Unix(_) => None,
        }
    }
}

impl FromStr for GrpcAddr {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        if let Some(path) = written.strip_prefix("unix://") {
            let path = Path::new(path);
            if path.is_absolute() && path.file_name().is_some() {
                return Ok(Self::Unix(path.to_owned()));
            }
        } else if let Ok(addr) = written.parse() {
            return Ok(Self::Tcp(addr));
        }
        Err("must be an address and a port, such as 127.0.0.1:50051 or localhost:50051, or unix:// and an \
             absolute path")
    }
}

impl fmt::Display for GrpcAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tcp_address_or_the_absolute_path_of_a_socket() {
        for written in ["127.0.0.1:50051", "[::1]:0", "localhost:1", "unix:///run/petstore/core.sock"] {
            assert_eq!(written.parse::<GrpcAddr>().unwrap().to_string(), written);
        }
        for written in ["", "localhost", "50051", "unix://", "unix:///", "unix://core.sock", "unix:/run/a"] {
            assert!(written.parse::<GrpcAddr>().is_err(), "{written}");
        }
    }

    #[test]
    fn every_loopback_address_and_every_socket_is_local() {
        for written in
            ["127.0.0.1:1", "127.255.0.9:0", "[::1]:50051", "[::ffff:127.0.0.1]:1", "unix:///run/core.sock"]
        {
            assert!(written.parse::<GrpcAddr>().unwrap().is_local(), "{written}");
        }
        for written in [
            "0.0.0.0:50051",
            "[::]:50051",
            "10.0.0.1:1",
            "192.168.1.5:1",
            "[::ffff:10.0.0.1]:1",
            "[fe80::1]:1",
        ] {
            assert!(!written.parse::<GrpcAddr>().unwrap().is_local(), "{written}");
        }
    }
}
