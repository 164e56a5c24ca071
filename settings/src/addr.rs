//! Addresses of ports and sockets, and names of hosts.

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use tokio::net::lookup_host;

/// Address and port. A name is resolved when the port is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// IP address and port.
    Ip(SocketAddr),
    /// Host name and port.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl ListenAddr {
    /// Returns `true` if only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(addr) => addr.ip().to_canonical().is_loopback(),
            Self::Name { host, .. } => is_localhost(host),
        }
    }

    /// Returns the addresses to try, those of IPv4 first, like the default addresses. `localhost` is never an
    /// address that others can reach, even if the resolver says so.
    ///
    /// # Errors
    ///
    /// If the resolver fails or knows no address.
    pub async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let (host, port) = match self {
            Self::Ip(addr) => return Ok(vec![*addr]),
            Self::Name { host, port } => (host, *port),
        };
        let mut addrs: Vec<_> = lookup_host((host.as_str(), port)).await?.collect();
        addrs.retain(|addr| !is_localhost(host) || addr.ip().is_loopback());
        addrs.sort_by_key(SocketAddr::is_ipv6); // stable
        if addrs.is_empty() { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok(addrs) }
    }
}

/// Returns `true` for the name that stands for this machine alone (RFC 6761 §6.3).
fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

impl FromStr for ListenAddr {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let refusal = "must be an address and a port, such as 127.0.0.1:8080, [::1]:8080 or localhost:8080";
        if let Ok(addr) = written.parse() {
            return Ok(Self::Ip(addr));
        }
        let (host, port) = written.rsplit_once(':').ok_or(refusal)?;
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if is_port && is_name(host) => Ok(Self::Name { host: host.to_owned(), port }),
            _ => Err(refusal),
        }
    }
}

/// Returns `true` if it has the form of a host name (RFC 1123 §2.1), and is not an IPv4 address with a digit
/// too many.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_allowed)
    };
    let mut labels = host.strip_suffix('.').unwrap_or(host).split('.');
    host.len() <= 253
        && labels.clone().all(is_label)
        && labels.next_back().is_some_and(|last| last.bytes().any(|byte| !byte.is_ascii_digit()))
}

/// Parses an address, or `off` for none.
pub(super) fn addr_or_off(written: &str) -> Result<Option<ListenAddr>, &'static str> {
    if written == "off" { Ok(None) } else { written.parse().map(Some) }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(addr) => addr.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

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
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(addr) => addr.is_local(),
            Self::Unix(_) => true,
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

/// Returns a host name in lower case, without a dot at its end.
///
/// # Errors
///
/// If it has another form.
pub fn host_name(written: &str) -> Result<String, &'static str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name = Some(written).filter(|name| !name.is_empty() && name.bytes().all(is_part));
    let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    name.ok_or("must be a host name without a port, such as gateway.example")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(written: &str) -> Result<ListenAddr, &'static str> {
        written.parse()
    }

    #[test]
    fn an_address_or_a_name_and_a_port() {
        for written in ["127.0.0.1:8080", "[::1]:0", "localhost:8080", "db-1.example.:1", "a_b:65535"] {
            assert_eq!(parse(written).unwrap().to_string(), written);
        }
        for written in [
            "",
            "8080",
            ":8080",
            "localhost",
            "localhost:",
            "localhost:x",
            "localhost:+1",
            "localhost:65536",
            "::1:80",
            "a b:1",
            "a..b:1",
            "1.2.3:1",
            "1.2.3.4.5:1",
            "256.0.0.1:1",
            "http://a:1",
            "a/b:1",
            "-:é",
        ] {
            assert!(parse(written).is_err(), "{written}");
        }
    }

    #[test]
    fn loopback_addresses_and_localhost_are_local() {
        for written in ["127.0.0.1:1", "127.255.0.9:0", "[::1]:1", "[::ffff:127.0.0.1]:1", "LocalHost:1"] {
            assert!(parse(written).unwrap().is_local(), "{written}");
        }
        for written in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "shop.example:1", "localhost.example:1"] {
            assert!(!parse(written).unwrap().is_local(), "{written}");
        }
    }

    #[tokio::test]
    async fn localhost_is_resolved_to_loopback_and_ipv4_comes_first() {
        let addrs = parse("localhost:80").unwrap().resolve().await.unwrap();
        assert!(addrs.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 80), "{addrs:?}");
        assert!(addrs.is_sorted_by_key(SocketAddr::is_ipv6), "{addrs:?}");
        assert!(parse("nowhere.invalid:80").unwrap().resolve().await.is_err());
    }

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
