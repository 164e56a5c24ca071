//! HTTP server: accepts connections and serves HTTP on them, within bounds of number, time and memory.
//! HTTP/1.1 in plain text, and with TLS HTTP/2 or HTTP/1.1, as the client prefers (ALPN).
//!
//! # Promises
//!
//! - **Bounds.** [`ServerLimits`] bounds the time and memory of each connection, [`ConnectionSlots`] the
//!   number of connections, in total and from one address, and the bytes of responses that wait for clients.
//!   A slow or silent client holds its slot no longer than these times, and until another needs it.
//! - **Clients behind proxies.** With [`Server::proxy_protocol`], trusted proxies name the client of each
//!   connection, for the app and for the bound of one address. Connections of others are closed.
//! - **No lost requests.** While the server drains, each answer announces that its connection closes.
//!   Requests in flight finish, and connections that the kernel has accepted by then are served.
//! - **No lost answers.** A client that still sends its body gets the answer, and no reset of the connection.
//! - **Certificates** can be [replaced](Certificate::replace) while the port is served.
//!
//! # Failures
//!
//! A connection that exceeds a bound is closed, with an answer if HTTP has one (431 for a large head). One
//! that lacks the proxy's header that it needs is closed without one. A panic of the application ends only
//! its connection. A failed accept is logged and tried again. What is not a certificate or its key is a
//! [`tls::PemError`].
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use petstore_http_server::{ConnectionSlots, Server, ServerLimits, serve};
//! use tokio::{net::TcpListener, sync::oneshot};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let server = Server {
//!     certificate: None,
//!     app: Arc::new(Router::new().fallback(async || "hello")),
//!     limits: ServerLimits::default(),
//!     slots: ConnectionSlots::new(1_000, 50), // at once, and of one address
//!     proxy_protocol: false,
//!     hsts: None,
//! };
//! let (stop, stopped) = oneshot::channel::<()>();
//! let draining = Box::pin(std::future::pending());
//! let running = tokio::spawn(serve(listener, server, draining, Box::pin(async { drop(stopped.await) })));
//! drop(stop);
//! running.await.expect("the server does not panic")
//! # }
//! ```
//!
//! # Why not `axum::serve`
//!
//! It has no timeout for half-sent heads, and its graceful shutdown waits without end for a client that
//! neither sends nor closes.

mod activity;
mod certificate;
mod connection;
mod connection_slots;
mod discard_body;
mod drain;
mod http1;
mod http2;
mod proxy_protocol;
#[cfg(test)]
mod tests;
pub mod tls;

use std::{fmt, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::{
    HeaderValue, Request,
    header::{STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS},
};
use petstore_telemetry::metrics;
use petstore_telemetry::metrics::{GaugeGuard, IntCounter, IntGauge, counter, gauge};
#[cfg(target_os = "linux")]
use socket2::{SockFilter, SockRef};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tower::ServiceExt;

pub use self::{
    certificate::{Certificate, certificate_metrics},
    connection_slots::ConnectionSlots,
};
use self::{connection::Connections, connection_slots::OpenConnection, drain::DrainControl};

/// Application that answers requests.
pub trait App: fmt::Debug + Send + Sync {
    /// Returns the answer. Its future is the only one that is allocated for a request.
    fn answer(&self, request: Request<Body>, peer: HttpPeer) -> BoxFuture<'static, Response>;
}

/// Client of a connection.
#[derive(Clone, Debug)]
pub struct HttpPeer {
    address: SocketAddr,
    /// `None` in tests of an app.
    connection: Option<Arc<OpenConnection>>,
}

impl From<SocketAddr> for HttpPeer {
    fn from(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }
}

impl HttpPeer {
    /// Returns the address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Records that the app knows who sends a request now. While all slots are taken, connections of
    /// strangers give way before those of known clients.
    pub fn note_known(&self, now: Instant) {
        if let Some(connection) = &self.connection {
            connection.note_known(now);
        }
    }
}

/// Passes the peer to its handlers as an extension of the request, `axum::extract::ConnectInfo<SocketAddr>`.
impl App for Router {
    fn answer(&self, mut request: Request<Body>, peer: HttpPeer) -> BoxFuture<'static, Response> {
        request.extensions_mut().insert(ConnectInfo(peer.address));
        self.clone().oneshot(request).map(|answered| answered.unwrap_or_else(|never| match never {})).boxed()
    }
}

/// App, and the bounds within which it is served.
#[derive(Clone, Debug)]
pub struct Server {
    /// Certificate for TLS; `None` for TCP alone.
    pub certificate: Option<Certificate>,
    /// App that answers the requests.
    pub app: Arc<dyn App>,
    /// Bounds of one connection.
    pub limits: ServerLimits,
    /// Bounds of the number of connections.
    pub slots: ConnectionSlots,
    /// `true` if each connection is of a proxy to which the slots [give more](ConnectionSlots::exempting),
    /// and begins with a header of the PROXY protocol, version 1 or 2, before TLS. Others are closed.
    pub proxy_protocol: bool,
    /// Time for which browsers use TLS alone for this host name (RFC 6797). Without TLS it has no effect.
    pub hsts: Option<Duration>,
}

/// Bounds of a connection, of its requests and of its end.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Time for a request's head of HTTP/1.1 to arrive, measured from its first byte. For a connection's
    /// first request it is measured from the opening of the connection. Default 9 s.
    pub header_read_timeout: Duration,
    /// Time for a TLS handshake, and before that as much for the header of a proxy. Default 5 s.
    pub tls_handshake: Duration,
    /// Maximum number of header fields in a head of HTTP/1.1; with more, the answer is 431 without an Error
    /// body. Default 256.
    pub max_headers: usize,
    /// Maximum length of the header fields of HTTP/2 in bytes, as RFC 9113 §6.5.2 counts them; with more, the
    /// answer is 431 without an Error body. Default 64 KiB.
    pub max_header_list: u32,
    /// Maximum number of concurrent requests on one HTTP/2 connection. Default 100.
    pub max_streams: u32,
    /// Maximum length in bytes of a head of HTTP/1.1, and of anything else that is buffered; with a larger
    /// head, the answer is 431 without an Error body. At least 8192. Default 64 KiB.
    pub max_buf_size: usize,
    /// Maximum time in which a client reads nothing of an answer. Default 10 s.
    pub write_stall: Duration,
    /// Age of a connection whose next answer is the last, so that clients spread over new instances. Default
    /// 10 min, to which each connection adds up to a tenth.
    pub max_connection_age: Duration,
    /// Maximum time of a connection without a request. It is longer than the idle timeout of proxies, because
    /// otherwise they send requests on a connection that is just being closed. Default 75 s.
    pub idle: Duration,
    /// Time without a request after which an HTTP/1.1 connection releases the memory of its buffers, up to
    /// twice as much. Default 250 ms, so that the connections of busy clients keep their buffers. The other
    /// times of an HTTP/1.1 connection are exact to this.
    pub rest_after: Duration,
    /// Maximum time of an HTTP/2 request, until the client has read its answer. Default 1 min.
    pub stream_deadline: Duration,
    /// Time for the requests in flight when a connection ends because of its age or because it is idle.
    /// Default 30 s.
    pub connection_age_grace: Duration,
    /// Maximum number of bytes of an unread body that are discarded so that the connection can be kept.
    /// Default 64 KiB.
    pub max_discarded: usize,
    /// Time for discarding it, and at the end of a connection the longest pause of a client that still sends.
    /// Default 1 s.
    pub discard_timeout: Duration,
    /// Maximum number of bytes that are discarded at the end of an HTTP/1.1 connection, so that a client that
    /// still sends sees the answer and not a reset. Default 16 MiB.
    pub max_lingered: usize,
    /// Time for discarding them. Default 10 s.
    pub linger_timeout: Duration,
    /// At shutdown, time without a new connection after which the listener closes, because clients have begun
    /// to open some before. Default 250 ms.
    pub accept_grace: Duration,
    /// At shutdown, time for which a connection without a request stays open, measured from the beginning of
    /// the drain or from its last answer: its client may be sending just now. Default 1 s.
    pub idle_grace: Duration,
    /// At shutdown, time for all connections to close. Default 20 s.
    pub drain_deadline: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(9),
            tls_handshake: Duration::from_secs(5),
            max_headers: 256,
            max_header_list: 64 * 1024,
            max_streams: 100,
            max_buf_size: 64 * 1024,
            write_stall: Duration::from_secs(10),
            max_connection_age: Duration::from_mins(10),
            idle: Duration::from_secs(75),
            rest_after: Duration::from_millis(250),
            stream_deadline: Duration::from_mins(1),
            connection_age_grace: Duration::from_secs(30),
            max_discarded: 64 * 1024,
            discard_timeout: Duration::from_secs(1),
            max_lingered: 16 * 1024 * 1024,
            linger_timeout: Duration::from_secs(10),
            accept_grace: Duration::from_millis(250),
            idle_grace: Duration::from_secs(1),
            drain_deadline: Duration::from_secs(20),
        }
    }
}

metrics! {
    /// Counters of a server's connections. Clones share them.
    #[derive(Clone, Debug)]
    pub struct ConnectionMetrics {
        open: IntGauge = gauge("petstore_connections_open", "Open connections to the REST port."),
        accepted: IntCounter = counter(
            "petstore_connections_accepted_total",
            "Connections accepted on the REST port.",
        ),
        refused: IntCounter = counter(
            "petstore_connections_refused_total",
            "REST connections refused: too many of an address, or no PROXY header.",
        ),
        reclaimed: IntCounter = counter(
            "petstore_connections_reclaimed_total",
            "REST connections closed while they waited for their client: others needed the place or memory.",
        ),
    }
}

impl ConnectionMetrics {
    fn accepted(&self) -> GaugeGuard {
        self.accepted.inc();
        GaugeGuard::new(&self.open)
    }
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
    mut shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<()>> {
    // In a box, so that it is compiled with this crate.
    Box::pin(async move {
        let drain = DrainControl::new();
        let (accept_grace, drain_deadline) = (server.limits.accept_grace, server.limits.drain_deadline);
        let (slots, proxy_protocol) = (server.slots.clone(), server.proxy_protocol);
        let connections = Connections::new(server, drain.watch());
        let mut listener = Listener::new(listener);
        let mut port = Port { slots, connections, proxy_protocol, accepted: None, open: JoinSet::new() };

        let is_closing = tokio::select! {
            () = port.accept_until(&mut listener, draining) => false,
            () = &mut shutdown => true,
        };
        drain.drain();
        if !is_closing {
            port.accept_until(&mut listener, shutdown).await;
        }
        drain.close();
        #[cfg(target_os = "linux")]
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
    })
}

/// Connections of a port.
#[derive(Debug)]
struct Port {
    slots: ConnectionSlots,
    connections: Connections,
    proxy_protocol: bool,
    /// Connection that waits for a slot.
    accepted: Option<(TcpStream, SocketAddr)>,
    open: JoinSet<()>,
}

impl Port {
    /// Accepts connections until `end`. While there is no slot for one, others wait in the kernel's queue.
    async fn accept_until(&mut self, listener: &mut Listener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let free = {
                let Self { slots, accepted, open, .. } = self;
                // Not restarted when a connection closes: its wait for a slot goes on.
                let mut next = pin!(async {
                    if accepted.is_none() {
                        *accepted = Some(listener.next().await);
                    }
                    slots.free().await
                });
                loop {
                    tokio::select! {
                        biased;
                        () = &mut end => return,
                        Some(closed) = open.join_next(), if !open.is_empty() => {
                            if let Err(error) = closed && error.is_panic() {
                                tracing::error!(%error, "a connection panicked");
                            }
                        }
                        free = &mut next => break free,
                    }
                }
            };
            self.begin(free);
        }
    }

    /// Accepts the connections that clients have opened or begun to open, and stops when no new one has
    /// arrived for `grace`. Each waits for a slot: connections close one after the other now.
    async fn accept_rest(&mut self, listener: &mut Listener, grace: Duration) {
        loop {
            if self.accepted.is_none() {
                let Ok(next) = timeout(grace, listener.next()).await else { return };
                self.accepted = Some(next);
            }
            let free = self.slots.free().await;
            self.begin(free);
        }
    }

    /// Serves the accepted connection.
    fn begin(&mut self, free: Option<OwnedSemaphorePermit>) {
        let Some((stream, peer)) = self.accepted.take() else { return };
        if self.proxy_protocol && !self.slots.exempts(peer.ip()) {
            self.slots.metrics().refused.inc();
            tracing::debug!(%peer, "closed a connection: it is not of a trusted proxy");
            return;
        }
        let Some(slot) = self.slots.take(free, peer.ip()) else {
            self.slots.metrics().refused.inc();
            tracing::debug!(%peer, "closed a connection: its address has too many");
            return;
        };
        let (connection, counted) = (Arc::clone(&slot.connection), (slot, self.slots.metrics().accepted()));
        let activity = self.connections.activity(Arc::clone(&connection));
        connection.is_served_by(self.open.spawn(self.connections.serve(stream, peer, activity, counted)));
    }
}

/// Adds the header fields that every response has: its type is to be believed, and browsers shall use TLS.
fn add_fields<B>(response: &mut http::Response<B>, hsts: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(hsts) = hsts {
        headers.insert(STRICT_TRANSPORT_SECURITY, hsts);
    }
}

/// Returns the age with up to a tenth added, so that connections that opened together do not close together.
/// The peer's port serves as the random number.
fn with_jitter(age: Duration, peer: SocketAddr) -> Duration {
    let tenth = age / 10;
    age.saturating_add(tenth * u32::from(peer.port() % 64) / 64)
}

/// Socket that accepts connections.
#[derive(Debug)]
struct Listener {
    listener: TcpListener,
    last_logged: Option<Instant>,
}

impl Listener {
    fn new(listener: TcpListener) -> Self {
        Self { listener, last_logged: None }
    }

    /// Waits for the next connection. Cancel-safe: none is lost.
    async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    self.log_failure(&error);
                    sleep(Duration::from_millis(50)).await; // file descriptors take time to return
                }
            }
        }
    }

    /// Logs the failure, unless another one was logged in the last 10 s.
    fn log_failure(&mut self, error: &io::Error) {
        if self.last_logged.is_none_or(|last| last.elapsed() >= Duration::from_secs(10)) {
            tracing::warn!(%error, "could not accept a connection");
            self.last_logged = Some(Instant::now());
        }
    }

    /// Refuses new connections. Connections that clients have begun to open still arrive.
    ///
    /// Closing the socket resets the connections that the kernel has opened and the server has not accepted
    /// yet, although their clients may have sent requests. So the kernel drops the segments that would begin
    /// a new connection (SYN without ACK), and the rest of the queue can be emptied. A client whose segment
    /// was dropped repeats it a second later, and is refused then.
    #[cfg(target_os = "linux")]
    fn refuse_new(&self) {
        // Classic BPF. The data is a TCP segment, beginning with its header (RFC 9293 §3.1).
        let drop_syn = [
            SockFilter::new(0x30, 0, 0, 13),       // load byte 13, the flags
            SockFilter::new(0x54, 0, 0, 0x12),     // keep SYN and ACK
            SockFilter::new(0x15, 0, 1, 0x02),     // unless it is SYN alone, skip one instruction
            SockFilter::new(0x06, 0, 0, 0),        // drop it
            SockFilter::new(0x06, 0, 0, u32::MAX), // take all of it
        ];
        if let Err(error) = SockRef::from(&self.listener).attach_filter(&drop_syn) {
            tracing::debug!(%error, "could not refuse new connections before the listener closes");
        }
    }
}
