//! One connection, from its first byte to its last.

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::ConnectInfo, response::Response, routing::future::RouteFuture};
use http::Request;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    time::timeout,
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::server::TlsStream;

use super::{
    Transport,
    conversation::{End, converse},
    limits::ServerLimits,
    linger::linger,
    streams::Streams,
};

/// HTTP/2, beyond what is a limit of the server: streams that a peer may open and reset before it is taken for an
/// attacker (CVE-2023-44487), and streams that we may have to reset.
const MAX_PENDING_RESETS: usize = 20;
const MAX_ERROR_RESETS: usize = 64;
/// How much of a body a client may send before it is read, per stream and per connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How much of an answer is kept per stream until the client takes it.
const SEND_BUFFER: usize = 64 * 1024;
/// A silent client is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// What all connections have in common.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    app: Router,
    transport: Transport,
    limits: Arc<ServerLimits>,
    http1: http1::Builder,
    /// Closes when the server stops.
    stopping: watch::Receiver<()>,
}

impl Connections {
    pub(super) fn new(
        app: Router,
        transport: Transport,
        limits: ServerLimits,
        stopping: watch::Receiver<()>,
    ) -> Self {
        let http1 = http1(&limits);
        Self { app, transport, limits: Arc::new(limits), http1, stopping }
    }

    pub(super) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// Serves the connection until it is closed.
    pub(super) fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send + use<> {
        let connections = self.clone(); // shares everything
        async move { connections.run(stream, peer).await }
    }

    async fn run(self, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "could not turn off Nagle's algorithm");
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(self.limits.read_stall));
        stream.set_write_timeout(Some(self.limits.write_stall));
        let stream = Box::pin(stream);
        match self.transport {
            Transport::Plain => self.converse_in_http1(stream, peer).await,
            Transport::Tls(_) => match self.shake_hands(stream).await {
                Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                    self.converse_in_http2(stream, peer).await;
                }
                Ok(stream) => self.converse_in_http1(stream, peer).await,
                Err(error) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            },
        }
    }

    /// Gives up when the server stops: nothing has been asked yet.
    async fn shake_hands<I: AsyncRead + AsyncWrite + Unpin>(&self, stream: I) -> io::Result<TlsStream<I>> {
        let Transport::Tls(certificate) = &self.transport else {
            return Err(io::ErrorKind::Unsupported.into()); // only asked for with TLS
        };
        let mut stopping = self.stopping.clone();
        tokio::select! {
            shaken = timeout(self.limits.tls_handshake, certificate.acceptor().accept(stream)) => {
                shaken.map_err(|_| io::ErrorKind::TimedOut)?
            }
            _ = stopping.changed() => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    async fn converse_in_http1<I>(&self, stream: I, peer: SocketAddr)
    where
        I: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let mut connection = self.http1.serve_connection(TokioIo::new(stream), self.service(peer));
        let idle = pending(); // the time for a head bounds it
        match converse(&mut connection, peer, &self.limits, self.stopping.clone(), idle).await {
            End::Over => {
                let stream = connection.into_parts().io.into_inner();
                linger(stream, self.limits.linger_bytes, self.limits.linger).await;
            }
            End::Overdue => {}
        }
    }

    /// HTTP/2 says in a frame that an answer is complete, so that there is nothing to linger for.
    async fn converse_in_http2<I>(&self, stream: I, peer: SocketAddr)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let streams = Streams::new(self.limits.stream_deadline);
        let http2 = http2(&self.limits, streams.clone());
        let mut connection = http2.serve_connection(TokioIo::new(stream), self.service(peer));
        let idle = streams.idle_for(self.limits.idle);
        let _ = converse(&mut connection, peer, &self.limits, self.stopping.clone(), idle).await;
    }

    fn service(&self, peer: SocketAddr) -> PeerService {
        PeerService { app: self.app.clone(), peer }
    }
}

fn http1(limits: &ServerLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_buf_size)
        // A client that has said all may close its half and still be answered. It also saves a look at the
        // socket during each request; an abandoned request runs to its own deadline.
        .half_close(true);
    http
}

fn http2(limits: &ServerLimits, streams: Streams) -> http2::Builder<Streams> {
    let mut http = http2::Builder::new(streams);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_streams)
        .max_header_list_size(limits.max_header_list)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    http
}

/// The app, told who the peer is.
#[derive(Debug)]
pub(super) struct PeerService {
    app: Router,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for PeerService {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        tower::Service::call(&mut self.app.clone(), request) // a router is always ready, and cheap to clone
    }
}
