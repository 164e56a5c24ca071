//! Handle of the proxy for tests.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    connection::carry,
    plan::{Injected, MessageFault, MessageSite, Plan},
};

/// Proxy on a port of 127.0.0.1 in front of a PostgreSQL server, for clients that do without TLS. When it is
/// dropped, it ends with its connections.
#[derive(Debug)]
pub struct PostgresProxy {
    address: SocketAddr,
    plan: Arc<Plan>,
    resets: Arc<watch::Sender<u64>>,
    accept_loop: AbortHandle,
}

impl PostgresProxy {
    /// Starts a proxy to the server, without a fault.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let (plan, resets) = (Arc::new(Plan::new()), Arc::new(watch::Sender::new(0)));
        let accept_loop = tokio::spawn(accept(listener, target, Arc::clone(&plan), Arc::clone(&resets)));
        Self { address, plan, resets, accept_loop: accept_loop.abort_handle() }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Injects the fault as soon as its message arrives, and waits up to `patience` for that. Returns `None`
    /// if no message arrived; then the fault is removed. Several calls may wait at once; a message has one
    /// fault at most.
    pub async fn inject(&self, fault: MessageFault, patience: Duration) -> Option<Injected> {
        let (number, triggered) = self.plan.arm(fault);
        if let Ok(injected) = timeout(patience, triggered).await {
            return Some(injected.expect("it is sent before it is forgotten"));
        }
        self.plan.disarm(number);
        None
    }

    /// Returns every site where a message was, with the number of messages.
    pub fn seen(&self) -> BTreeMap<MessageSite, u64> {
        self.plan.seen()
    }

    /// Returns the faults that were injected, in their order.
    pub fn injected(&self) -> Vec<Injected> {
        self.plan.injected()
    }

    /// Waits until every message that was held has arrived, or its connection has ended.
    pub async fn nothing_held(&self) {
        self.plan.nothing_held().await;
    }

    /// Resets all open connections, on both sides. New ones are accepted as before.
    pub fn reset_connections(&self) {
        self.resets.send_modify(|count| *count += 1);
    }
}

impl Drop for PostgresProxy {
    fn drop(&mut self) {
        self.accept_loop.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, plan: Arc<Plan>, resets: Arc<watch::Sender<u64>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(carry(stream, target, Arc::clone(&plan), resets.subscribe()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
