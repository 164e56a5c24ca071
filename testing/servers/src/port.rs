//! Ports for listeners that stop and start under one address.

use std::{
    hash::{BuildHasher, RandomState},
    net::Ipv4Addr,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::net::TcpSocket;

/// First port. It is below the ports that the kernel assigns (32,768 on Linux), and so is the port 10,000
/// above, which Redis Cluster takes for its bus.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// Returns a free port on 127.0.0.1. The port 10,000 above it is free too.
///
/// The kernel never assigns these ports to a client, so a port stays free while its server is down, and a
/// client that retries cannot connect to itself (a TCP connection to one's own source port succeeds). This
/// process does not return or try a port twice before it has tried all. Only another harness may take the
/// port between this call and the listening: a caller that starts a server tries again.
pub fn free_port() -> u16 {
    /// Counter with a random start, so that harnesses begin at different ports.
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(()) >> 1));
    // It does not listen: a client that expects nobody at this port would be accepted.
    let is_free = |port: u16| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).is_ok() && socket.bind((Ipv4Addr::LOCALHOST, port).into()).is_ok()
    };
    (0..COUNT)
        .map(|_| {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(COUNT);
            FIRST + u16::try_from(offset).expect("below COUNT")
        })
        .find(|port| is_free(*port) && is_free(port + 10_000))
        .expect("one of 10,000 ports is free")
}
