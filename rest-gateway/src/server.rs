//! Sockets: accepts connections and serves HTTP on them, within bounds of number, time and memory. HTTP/1.1
//! in plain text, and with TLS HTTP/2 or HTTP/1.1, as the client prefers (ALPN).
//!
//! `axum::serve` is not used: it has no timeout for half-sent heads, and its graceful shutdown waits without
//! end for a client that neither sends nor closes.

mod activity;
mod certificate;
mod connection;
mod connection_slots;
mod discard_body;
mod drain;
mod http1;
mod http2;
mod limits;
mod listener;
mod metrics;
mod streams;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::Request;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    task::JoinSet,
    time::timeout,
};
use tower::ServiceExt;

pub use self::{
    certificate::{Certificate, CertificateFiles, InvalidCertificate, certificate_metrics},
    connection_slots::ConnectionSlots,
    limits::ServerLimits,
    metrics::ConnectionMetrics,
};
use self::{connection::Connections, drain::DrainControl, listener::Listener};

/// Application that answers requests.
pub trait App: fmt::Debug + Send + Sync {
    /// Returns the answer. Its future is the only one that is allocated for a request.
    fn answer(&self, request: Request<Body>, peer: SocketAddr) -> BoxFuture<'static, Response>;
}

/// Passes the peer to its handlers as an extension of the request, `axum::extract::ConnectInfo<SocketAddr>`.
impl App for Router {
    fn answer(&self, mut request: Request<Body>, peer: SocketAddr) -> BoxFuture<'static, Response> {
        request.extensions_mut().insert(ConnectInfo(peer));
        self.clone().oneshot(request).map(|answered| answered.unwrap_or_else(|never| match never {})).boxed()
    }
}

/// Protocol below HTTP.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP alone.
    Plain,
    /// TLS with this certificate, whose files are read again while the port is served.
    Tls(Certificate),
}

/// App, and the bounds within which it is served.
#[derive(Clone, Debug)]
pub struct Server {
    /// Protocol below HTTP.
    pub transport: Transport,
    /// App that answers the requests.
    pub app: Arc<dyn App>,
    /// Bounds of one connection.
    pub limits: ServerLimits,
    /// Bounds of the number of connections.
    pub slots: ConnectionSlots,
    /// Connection counters.
    pub metrics: ConnectionMetrics,
}

/// Serves the listener's connections.
///
/// After the end of `draining` each answer announces that the connection closes (HTTP/1.1 `Connection:
/// close`, HTTP/2 GOAWAY), while new connections are still accepted. At the end of `shutdown` it accepts only
/// the connections that clients have opened before, and lets every request in flight finish. It returns when
/// the last connection is closed or [`ServerLimits::drain_deadline`] has passed.
///
/// # Errors
/// None at present: a failed accept is logged and tried again.
pub fn serve(
    listener: TcpListener,
    server: Server,
    draining: BoxFuture<'static, ()>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<()>> {
    Box::pin(serve_until(listener, server, draining, shutdown)) // so that it is compiled with this crate
}

async fn serve_until(
    listener: TcpListener,
    server: Server,
    draining: BoxFuture<'static, ()>,
    mut shutdown: BoxFuture<'static, ()>,
) -> io::Result<()> {
    let Server { transport, app, limits, slots, metrics } = server;
    let drain = DrainControl::new();
    let mut watching = JoinSet::new(); // ends with this function
    if let Transport::Tls(certificate) = &transport {
        watching.spawn(certificate.clone().keep_current());
    }
    let (accept_grace, drain_deadline) = (limits.accept_grace, limits.drain_deadline);
    let connections = Connections::new(app, transport, limits, drain.watch());
    let mut listener = Listener::new(listener);
    let mut port = Port { slots, metrics, connections, open: JoinSet::new() };

    let is_closing = tokio::select! {
        () = port.accept_until(&mut listener, draining) => false,
        () = &mut shutdown => true,
    };
    drain.drain();
    if !is_closing {
        port.accept_until(&mut listener, shutdown).await;
    }
    drain.close();
    listener.refuse_new();
    let all_closed = async {
        port.accept_rest(&mut listener, accept_grace).await;
        drop(listener); // closes it
        while port.open.join_next().await.is_some() {}
    };
    if timeout(drain_deadline, all_closed).await.is_err() {
        let connections = port.open.len();
        tracing::warn!(connections, "cut off connections that were open at the drain deadline");
        port.open.shutdown().await;
    }
    Ok(())
}

/// Connections of a port.
#[derive(Debug)]
struct Port {
    slots: ConnectionSlots,
    metrics: ConnectionMetrics,
    connections: Connections,
    open: JoinSet<()>,
}

impl Port {
    /// Accepts connections until `end`, each once there is a slot for it. While there is none, they wait in
    /// the kernel's queue.
    async fn accept_until(&mut self, listener: &mut Listener, end: impl Future<Output = ()>) {
        let (mut end, slots) = (pin!(end), self.slots.clone());
        let next = async |listener: &mut Listener| {
            let free = slots.free().await;
            let (stream, peer) = listener.next().await;
            (free, stream, peer)
        };
        loop {
            // Not restarted when a connection closes, so that it keeps its position among those that wait for
            // a slot.
            let mut accepted = pin!(next(listener));
            let (free, stream, peer) = loop {
                tokio::select! {
                    biased;
                    () = &mut end => return,
                    Some(closed) = self.open.join_next(), if !self.open.is_empty() => {
                        if let Err(error) = closed && error.is_panic() {
                            tracing::error!(%error, "a connection panicked");
                        }
                    }
                    accepted = &mut accepted => break accepted,
                }
            };
            self.begin(free, stream, peer);
        }
    }

    /// Accepts the connections that clients have opened or begun to open, and stops when no new one has
    /// arrived for `grace`. Each waits for a slot: connections close one after the other now.
    async fn accept_rest(&mut self, listener: &mut Listener, grace: Duration) {
        while let Ok((stream, peer)) = timeout(grace, listener.next()).await {
            let free = self.slots.free().await;
            self.begin(free, stream, peer);
        }
    }

    fn begin(&mut self, free: Option<OwnedSemaphorePermit>, stream: TcpStream, peer: SocketAddr) {
        let Ok(slot) = self.slots.take(free, peer.ip()) else {
            self.metrics.refused();
            tracing::debug!(%peer, "closed a connection: its address has too many");
            return;
        };
        let (activity, counted) = (self.connections.activity(), (slot, self.metrics.accepted()));
        let task = self.open.spawn(self.connections.serve(stream, peer, activity.clone(), counted));
        self.slots.opened(task, activity);
    }
}

/// Returns the age with up to a tenth added, so that connections that opened together do not close together.
/// The peer's port serves as the random number.
fn with_jitter(age: Duration, peer: SocketAddr) -> Duration {
    let tenth = age / 10;
    age.saturating_add(tenth * u32::from(peer.port() % 64) / 64)
}
