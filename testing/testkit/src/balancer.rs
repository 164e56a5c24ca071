//! Load balancer of connections.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use petstore_test_servers::{eventually, faults::Proxy};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::AbortHandle,
    time::{sleep, timeout},
};

use crate::Server;

/// Interval of the checks of readiness, and timeout of a check.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout within which a server that is ready gets connections.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Proxy that carries each new connection to the next server that is ready, as `/readyz` says.
#[derive(Debug)]
pub struct Balancer {
    proxy: Arc<Proxy>,
    members: Arc<Mutex<Vec<Member>>>,
    checks: AbortHandle,
}

/// Server behind the balancer.
#[derive(Clone, Copy, Debug)]
struct Member {
    target: SocketAddr,
    admin: SocketAddr,
    is_ready: bool,
}

impl Balancer {
    /// Starts a balancer without servers: it resets each connection.
    pub async fn start() -> Self {
        let proxy = Arc::new(Proxy::to((Ipv4Addr::LOCALHOST, 0).into()).await);
        let members = Arc::<Mutex<Vec<Member>>>::default();
        let (checked, carrier) = (Arc::clone(&members), Arc::clone(&proxy));
        let checks = tokio::spawn(async move {
            loop {
                check(&checked, &carrier).await;
                sleep(CHECK_INTERVAL).await;
            }
        });
        Self { proxy, members, checks: checks.abort_handle() }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// Replaces the servers by these, at one of their ports (`REST`, `HTTPS`, `gRPC`). Waits until all of
    /// them get connections.
    pub async fn lead_to<'a>(&self, servers: impl IntoIterator<Item = &'a Server>, port: &str) {
        let member = |server: &Server| {
            let (target, admin) = (server.address(port), server.address("admin"));
            let known = self.members().iter().find(|known| known.target == target).copied();
            known.unwrap_or(Member { target, admin, is_ready: false })
        };
        let members = servers.into_iter().map(member).collect();
        *self.members.lock().expect("no panic under this lock") = members;
        eventually(CHANGE_TIMEOUT, async || match self.members() {
            members if members.iter().all(|member| member.is_ready) => Ok(()),
            members => Err(format!("{members:?}")),
        })
        .await;
    }

    fn members(&self) -> Vec<Member> {
        self.members.lock().expect("no panic under this lock").clone()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.checks.abort();
    }
}

/// Checks every server once, and gives the proxy those that are ready.
async fn check(members: &Mutex<Vec<Member>>, proxy: &Proxy) {
    let admins: Vec<_> =
        members.lock().expect("no panic under this lock").iter().map(|member| member.admin).collect();
    for admin in admins {
        let is_ready = is_ready(admin).await;
        let mut members = members.lock().expect("no panic under this lock");
        members
            .iter_mut()
            .filter(|member| member.admin == admin)
            .for_each(|member| member.is_ready = is_ready);
        let ready: Vec<_> =
            members.iter().filter(|member| member.is_ready).map(|member| member.target).collect();
        proxy.lead_to_each(&ready);
    }
}

async fn is_ready(admin: SocketAddr) -> bool {
    let exchange = async {
        let mut stream = TcpStream::connect(admin).await?;
        let request = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    matches!(timeout(CHECK_TIMEOUT, exchange).await, Ok(Ok(answer)) if answer.starts_with(b"HTTP/1.1 200 "))
}
