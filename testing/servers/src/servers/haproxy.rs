//! Real HAProxy.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Command,
};

use rustix::process::Signal;
use tokio::net::TcpStream;

use super::supervised::{StartFault, Supervised};
use crate::port::free_port;

/// Program of Debian's package, which is not in the search path of every user.
const PROGRAM: &str = "/usr/sbin/haproxy";

const HINT: &str = "install the Debian package haproxy (scripts/install-test-servers does)";

/// Single `haproxy` on 127.0.0.1 in front of HTTP or gRPC servers, to which it keeps its connections; killed
/// when dropped.
#[derive(Debug)]
pub struct HaproxyServer {
    port: u16,
    _process: Supervised,
}

impl HaproxyServer {
    /// Starts a proxy in front of these servers, each with the address of its readiness, `/readyz`, which it
    /// checks ten times a second. Every connection to a server is for all clients. Waits until it listens.
    ///
    /// Panics if it does not start, naming the Debian package if the program is missing.
    pub async fn start(servers: &[(SocketAddr, SocketAddr)]) -> Self {
        Self::start_with("", "", "", servers).await
    }

    /// Starts a proxy in front of these servers with further settings of its frontend and its backend, and
    /// with room for every head that a server accepts.
    pub async fn start_with_settings(
        frontend: &str,
        backend: &str,
        servers: &[(SocketAddr, SocketAddr)],
    ) -> Self {
        Self::start_with("", frontend, backend, servers).await
    }

    /// Starts a proxy in front of cores, which speaks HTTP/2. Each call goes to the next core. While there is
    /// none, the proxy answers with a gRPC status, as the one in deploy/compose does.
    pub async fn start_before_cores(servers: &[(SocketAddr, SocketAddr)]) -> Self {
        const ERRORS: &str = "  balance roundrobin\n  \
            http-error status 502 hdr grpc-status 14 hdr grpc-message \"the core closed the connection\"\n  \
            http-error status 503 hdr grpc-status 14 hdr grpc-message \"no core is ready\"\n  \
            http-error status 504 hdr grpc-status 4 hdr grpc-message \"the core did not answer in time\"\n";
        Self::start_with(" proto h2", "", ERRORS, servers).await
    }

    async fn start_with(
        protocol: &str,
        frontend: &str,
        backend: &str,
        servers: &[(SocketAddr, SocketAddr)],
    ) -> Self {
        loop {
            let (port, mut process) = (free_port(), Supervised::new(Signal::KILL));
            let config = config(port, protocol, frontend, backend, servers);
            std::fs::write(process.folder().join("haproxy.cfg"), config).expect("a file");
            let mut command = Command::new(PROGRAM);
            command.args(["-db", "-f", "haproxy.cfg"]);
            process.spawn(command, HINT);
            let listens = async |_| match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
            match process.ready(listens).await {
                Ok(()) => return Self { port, _process: process },
                Err(StartFault::PortTaken) => {}
                Err(StartFault::Ended(how)) => panic!("haproxy ended with {how}"),
            }
        }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

fn config(
    port: u16,
    protocol: &str,
    frontend: &str,
    backend: &str,
    servers: &[(SocketAddr, SocketAddr)],
) -> String {
    let servers = servers.iter().enumerate().map(|(number, (address, readiness))| {
        let readiness = readiness.port();
        format!(
            "  server s{number} {address}{protocol} addr {address} check check-proto h1 port {readiness}\n"
        )
    });
    format!(
        "global\n  maxconn 200\n  tune.http.maxhdr 256\n  tune.bufsize 49152\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 30s\n  timeout server 30s\n  \
         timeout http-keep-alive 60s\n  timeout check 5s\n  http-reuse always\n  \
         option redispatch\n  retries 2\n\
         frontend clients\n  bind 127.0.0.1:{port}{protocol}\n{frontend}  default_backend servers\n\
         backend servers\n{backend}  option httpchk\n  http-check send meth GET uri /readyz\n  \
         http-check expect status 200\n  default-server inter 100ms fall 1 rise 1\n{}",
        servers.collect::<String>()
    )
}
