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
mod connection;
mod connection_slots;
mod discard_body;
mod http1;
mod http2;
mod port;
mod proxy_protocol;
mod stream;
#[cfg(test)]
mod tests;
pub mod tls;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::{
    HeaderValue, Request,
    header::{STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS},
};
use petstore_telemetry::metrics;
use petstore_telemetry::metrics::{IntCounter, IntGauge, counter, gauge};
use tokio::{sync::Semaphore, time::Instant};
use tower::ServiceExt;

use self::connection_slots::OpenConnection;
pub use self::{
    connection_slots::ConnectionSlots,
    port::serve,
    tls::{Certificate, certificate_metrics},
};

/// Application that answers requests.
pub trait App: Send + Sync {
    /// Returns the answer. Its future is the only one that is allocated for a request.
    fn answer(&self, request: Request<Body>, peer: HttpPeer) -> BoxFuture<'static, Response>;
}

/// Client of a connection.
#[derive(Clone)]
pub struct HttpPeer {
    /// Its address.
    pub address: SocketAddr,
    /// `None` in tests of an app.
    connection: Option<Arc<OpenConnection>>,
}

impl From<SocketAddr> for HttpPeer {
    fn from(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }
}

impl HttpPeer {
    /// Records that the app knows who sends a request now. While all slots are taken, connections of
    /// strangers give way before those of known clients.
    pub fn note_known(&self, now: Instant) {
        if let Some(connection) = &self.connection {
            *connection.known_since.lock() = Some(now);
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
#[derive(Clone)]
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
    /// Time for a request's head to arrive, measured from its first byte (HTTP/1.1). For a connection's first
    /// request it is measured from the opening of the connection. Default 9 s.
    pub header_read_timeout: Duration,
    /// Time for a TLS handshake, and before that as much for the header of a proxy. Default 5 s.
    pub tls_handshake: Duration,
    /// Maximum number of concurrent requests on one HTTP/2 connection. Default 100.
    pub max_streams: u32,
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
            max_streams: 100,
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

/// State that all connections of a port share.
struct Connections {
    app: Arc<dyn App>,
    certificate: Option<Certificate>,
    limits: ServerLimits,
    http1: hyper::server::conn::http1::Builder,
    /// Places for unread bodies of HTTP/2 that are discarded concurrently; the rest is refused at once. Each
    /// holds the bytes that its client may send before they are read, 64 KiB, and a connection no more than
    /// 1 MiB altogether.
    discards: Arc<Semaphore>,
    drain: activity::DrainWatch,
    slots: ConnectionSlots,
    /// `true` if each connection is of a proxy, which names the client.
    proxy_protocol: bool,
    /// `Strict-Transport-Security` of every response.
    hsts: Option<HeaderValue>,
}

metrics! {
    /// Counters of a server's connections. Clones share them.
    #[derive(Clone, Debug)]
    pub struct ConnectionMetrics(prefix) {
        open: IntGauge = gauge(&format!("{prefix}connections_open"), "Open HTTP connections."),
        accepted: IntCounter = counter(
            &format!("{prefix}connections_accepted_total"),
            "HTTP connections accepted.",
        ),
        refused: IntCounter = counter(
            &format!("{prefix}connections_refused_total"),
            "HTTP connections refused: too many of an address, or no PROXY header.",
        ),
        reclaimed: IntCounter = counter(
            &format!("{prefix}connections_reclaimed_total"),
            "HTTP connections closed while they waited for their client: others needed the place or memory.",
        ),
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
