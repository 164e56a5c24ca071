//! Sockets: accepts connections and serves HTTP on them, within bounds of number, time and memory: HTTP/1.1
//! in plain text, and with TLS HTTP/2 or HTTP/1.1, as the client prefers (ALPN).
//!
//! Not `axum::serve`: that has no timeout for half-sent heads, and its graceful shutdown waits for ever for a
//! client that neither speaks nor leaves.

mod activity;
mod app;
mod certificate;
mod connection;
mod connection_slots;
mod discard_body;
mod drain;
mod http1;
mod http2;
mod limits;
mod lingering_close;
mod listener;
mod metrics;
mod streams;
#[cfg(test)]
mod tests;

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};

pub use self::{
    app::App,
    certificate::{Certificate, CertificateFiles, InvalidCertificate, certificate_metrics},
    connection_slots::ConnectionSlots,
    limits::ServerLimits,
    metrics::ConnectionMetrics,
};
use self::{connection::Connections, drain::DrainControl, listener::Listener};

/// What carries HTTP.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Bytes that everybody on the way can read.
    Plain,
    /// TLS, with this certificate, whose files are followed while the port is served.
    Tls(Certificate),
}

/// What is served at a port, and within which bounds.
#[derive(Clone, Debug)]
pub struct Server {
    /// What carries HTTP.
    pub transport: Transport,
    /// Answers requests.
    pub app: Arc<dyn App>,
    /// What a client may take.
    pub limits: ServerLimits,
    /// How many connections there may be.
    pub slots: ConnectionSlots,
    /// What is counted of them.
    pub metrics: ConnectionMetrics,
}

/// Serves the listener's connections.
///
/// From the end of `draining` on each answer tells its client that the connection ends (HTTP/1.1 `Connection:
/// close`, HTTP/2 GOAWAY), while new connections are still accepted. At the end of `shutdown` it accepts no
/// more, lets every request that is under way finish, and returns when the last connection is closed or
/// [`ServerLimits::drain_deadline`] has passed, whatever clients do.
///
/// # Errors
/// None at present: a failed accept is logged and tried again.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    draining: impl Future<Output = ()> + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let Server { transport, app, limits, slots, metrics } = server;
    let drain = DrainControl::new();
    let mut watching = JoinSet::new(); // ends with this function
    if let Transport::Tls(certificate) = &transport {
        watching.spawn(certificate.clone().keep_current());
    }
    let (accept_grace, drain_deadline) = (limits.accept_grace, limits.drain_deadline);
    let connections = Connections::new(app, transport, limits, drain.watch());
    let mut port =
        Port { listener: Listener::new(listener), slots, metrics, connections, open: JoinSet::new() };

    let mut shutdown = pin!(shutdown);
    let is_closing = tokio::select! {
        () = port.accept_until(draining) => false,
        () = &mut shutdown => true,
    };
    drain.drain();
    if !is_closing {
        port.accept_until(shutdown).await;
    }
    drain.close();
    port.listener.refuse_new();
    port.accept_until(sleep(accept_grace.min(drain_deadline))).await;

    drop(port.listener); // closes it
    let mut open = port.open;
    let all_closed = async { while open.join_next().await.is_some() {} };
    if timeout(drain_deadline, all_closed).await.is_err() {
        tracing::warn!(connections = open.len(), "cut off connections that were open at the drain deadline");
        open.shutdown().await;
    }
    Ok(())
}

/// A listener and its connections.
#[derive(Debug)]
struct Port {
    listener: Listener,
    slots: ConnectionSlots,
    metrics: ConnectionMetrics,
    connections: Connections,
    open: JoinSet<()>,
}

impl Port {
    /// Accepts connections until `end`, each once there is a slot for it: while there is none, they wait in
    /// the kernel's queue.
    async fn accept_until(&mut self, end: impl Future<Output = ()>) {
        let Self { listener, slots, metrics, connections, open } = self;
        let mut end = pin!(end);
        let next = async |listener: &mut Listener| {
            let free = slots.free().await;
            let (stream, peer) = listener.next().await;
            (free, stream, peer)
        };
        loop {
            // Not begun anew when a connection closes, so that it keeps its turn among those that wait for a
            // slot.
            let mut accepted = pin!(next(listener));
            let (free, stream, peer) = loop {
                tokio::select! {
                    biased;
                    () = &mut end => return,
                    Some(closed) = open.join_next(), if !open.is_empty() => {
                        if let Err(error) = closed {
                            tracing::error!(%error, "a connection panicked");
                        }
                    }
                    accepted = &mut accepted => break accepted,
                }
            };
            let Ok(slot) = slots.take(free, peer.ip()) else {
                metrics.refused();
                tracing::debug!(%peer, "closed a connection: its address has too many");
                continue;
            };
            open.spawn(connections.serve(stream, peer, (slot, metrics.accepted())));
        }
    }
}

/// Up to a tenth longer, so that connections that opened together do not close together. The peer's port is
/// as good as a random number here.
fn with_jitter(age: Duration, peer: SocketAddr) -> Duration {
    let tenth = age / 10;
    age.saturating_add(tenth * u32::from(peer.port() % 64) / 64)
}
