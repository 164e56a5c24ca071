//! One connection, from its first byte to its last.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use http::HeaderValue;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_io_timeout::TimeoutStream;

use super::{
    Certificate, Connections, HttpPeer, Server,
    activity::{Activity, DrainWatch, idle_connections_expired},
    connection_slots::OpenConnection,
    discard_body::lingering_close,
    http1::{self as version_1, Driver, End, Http1Service},
    http2::{self as version_2, Http2Service, Streams},
    proxy_protocol,
    stream::ObservedStream,
};

/// Bytes that a connection over TLS keeps of what its client does not take: the bound of rustls.
const TLS_BUFFER: usize = 64 * 1024;

impl Connections {
    pub(super) fn new(server: Server, drain: DrainWatch) -> Arc<Self> {
        let Server { certificate, app, limits, slots, proxy_protocol, hsts } = server;
        let (http1, discards) = (version_1::builder(), Arc::new(Semaphore::new(1_024)));
        let hsts = hsts.filter(|_| certificate.is_some());
        let rounded_up = |age: Duration| age.as_millis().div_ceil(1_000); // only 0 makes browsers forget it
        let hsts = hsts.and_then(|age| HeaderValue::try_from(format!("max-age={}", rounded_up(age))).ok());
        Arc::new(Self { app, certificate, limits, http1, discards, drain, slots, proxy_protocol, hsts })
    }

    /// Serves the connection to its end, and then drops the guard that counts it.
    pub(super) fn serve<C: Send + 'static>(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        connection: Arc<OpenConnection>,
        counted: C,
    ) -> impl Future<Output = ()> + Send + use<C> {
        let connections = Arc::clone(self);
        async move {
            let activity = Activity::new(connections.drain.clone(), connection);
            if connections.proxy_protocol {
                Box::pin(connections.run_of_proxy(stream, peer, activity)).await;
            } else {
                connections.run(stream, peer, activity).await;
            }
            drop(counted);
        }
    }

    /// Serves the client that the proxy names, which counts among the connections of its address, even if
    /// that is another proxy's. Without a name, it is the proxy that sends requests.
    async fn run_of_proxy(self: &Arc<Self>, mut stream: TcpStream, proxy: SocketAddr, activity: Activity) {
        let client = match self.in_time(proxy_protocol::read_client(&mut stream)).await {
            Ok(client) => client,
            Err(error) => {
                // A proxy that checks the port connects and leaves.
                if error.kind() == io::ErrorKind::InvalidData {
                    self.slots.metrics.refused.inc();
                }
                tracing::debug!(%proxy, %error, "closed a connection of a proxy");
                return;
            }
        };
        if client.is_some_and(|client| !activity.0.connection.counts_for(client.ip())) {
            self.slots.metrics.refused.inc();
            tracing::debug!(peer = ?client, %proxy, "closed a connection: its address has too many");
            return;
        }
        self.run(stream, client.unwrap_or(proxy), activity).await;
    }

    async fn run(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, activity: Activity) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "could not turn off Nagle's algorithm");
        }
        // No read timeout, because it would be a timer to set for each request. Each wait has a separate
        // timeout: the handshake, the head, the body, the next request, and in HTTP/2 the answer to a ping.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.write_stall));
        let stream = Box::pin(stream);
        match &self.certificate {
            None => self.drive_http1(stream, peer, activity, 0).await,
            // In a box, so that connections without TLS do not take the memory that it needs.
            Some(certificate) => Box::pin(self.drive_tls(stream, certificate, peer, activity)).await,
        }
    }

    async fn drive_tls<I>(
        self: &Arc<Self>,
        stream: I,
        certificate: &Certificate,
        peer: SocketAddr,
        activity: Activity,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match Box::pin(self.in_time(certificate.acceptor().accept(stream))).await {
            Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                Box::pin(self.drive_http2(stream, peer, activity)).await;
            }
            Ok(stream) => Box::pin(self.drive_http1(stream, peer, activity, TLS_BUFFER)).await,
            Err(error) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
        }
    }

    /// Performs a step before the first request within its time. When the server closes, the client has as
    /// much time as for its first request, because it may have begun before.
    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let over = idle_connections_expired(self.drain.clone(), Instant::now(), self.limits.idle_grace);
        tokio::select! {
            done = timeout(self.limits.tls_handshake, step) => done.map_err(|_| io::ErrorKind::TimedOut)?,
            () = over => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    async fn drive_http1<I>(self: &Arc<Self>, stream: I, peer: SocketAddr, activity: Activity, buffer: usize)
    where
        I: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let client = HttpPeer { address: peer, connection: Some(Arc::clone(&activity.0.connection)) };
        let server = Arc::clone(self);
        let mut service = Http1Service { server, peer: client, activity: activity.clone() };
        let mut stream = ObservedStream::new(stream, activity.clone(), buffer);
        let mut driver = Driver::new(self, activity, peer);
        loop {
            let mut connection = self.http1.serve_connection(TokioIo::new(stream), service);
            let end = driver.drive(&mut connection).await;
            let parts = connection.into_parts();
            (stream, service) = (parts.io.into_inner(), parts.service);
            match end {
                End::Quiet => stream.unread = parts.read_buf,
                End::Over => break,
                End::Overdue => return,
            }
            // Without hyper, which holds two buffers of 8 KiB for each connection.
            if !driver.rest(&mut stream).await {
                break;
            }
        }
        lingering_close(stream.stream, &self.limits).await;
    }

    /// Serves HTTP/2, where a frame ends each answer, so that no lingering close is needed.
    /// Ends with the last request that the app works on, even if the connection ends before: until then it
    /// counts as open.
    async fn drive_http2<I>(self: &Arc<Self>, stream: I, peer: SocketAddr, activity: Activity)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let client = HttpPeer { address: peer, connection: Some(Arc::clone(&activity.0.connection)) };
        let (server, streams) = (Arc::clone(self), Streams::new(&self.limits));
        let (all, of_service) = (streams.clone(), activity.clone());
        let service = Http2Service { server, peer: client, streams: all, activity: of_service };
        let http2 = version_2::builder(&self.limits, streams.clone());
        let stream = ObservedStream::new(stream, activity.clone(), TLS_BUFFER);
        let mut connection = http2.serve_connection(TokioIo::new(stream), service);
        version_2::drive(&mut connection, &activity, peer, self, &streams).await;
        drop(connection);
        streams.end().await;
    }
}
