//! One connection, from its first byte to its last.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::ConnectInfo, response::Response, routing::future::RouteFuture};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, sync::watch, time::sleep};
use tokio_io_timeout::TimeoutStream;

use super::{limits::ServerLimits, linger::linger};

/// What all connections have in common.
#[derive(Debug)]
pub(super) struct Connections {
    app: Router,
    limits: Arc<ServerLimits>,
    http: http1::Builder,
    /// Closes when the server stops.
    stopping: watch::Receiver<()>,
}

impl Connections {
    pub(super) fn new(app: Router, limits: ServerLimits, stopping: watch::Receiver<()>) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.header_read_timeout)
            .max_headers(limits.max_headers)
            .max_buf_size(limits.max_buf_size)
            // A client that has said all may close its half and still be answered. It also saves a look at the
            // socket during each request; an abandoned request runs to its own deadline.
            .half_close(true);
        Self { app, limits: Arc::new(limits), http, stopping }
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
        let service = PeerService { app: self.app.clone(), peer };
        run(stream, service, self.http.clone(), Arc::clone(&self.limits), self.stopping.clone())
    }
}

async fn run(
    stream: TcpStream,
    service: PeerService,
    http: http1::Builder,
    limits: Arc<ServerLimits>,
    mut stopping: watch::Receiver<()>,
) {
    let peer = service.peer;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "could not turn off Nagle's algorithm");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(limits.read_stall));
    stream.set_write_timeout(Some(limits.write_stall));
    let mut connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);

    let mut age = pin!(sleep(spread(limits.max_connection_age, peer)));
    let mut leaving = Leaving::No;
    loop {
        let ended = poll_fn(|cx| connection.poll_without_shutdown(cx));
        tokio::select! {
            biased;
            ended = ended => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection ended early");
                }
                break;
            }
            () = &mut age => {
                if leaving == Leaving::OfAge {
                    tracing::debug!(%peer, "cut off a connection that did not end with its age");
                    return;
                }
                leaving = Leaving::OfAge;
                age.set(sleep(limits.connection_age_grace));
            }
            // The sender says nothing but that it is gone.
            _ = stopping.changed(), if leaving == Leaving::No => leaving = Leaving::OfStop,
        }
        // Lets the request under way finish, with `Connection: close`, and closes an idle connection at once.
        Pin::new(&mut connection).graceful_shutdown();
    }
    let stream = connection.into_parts().io.into_inner();
    linger(stream, limits.linger_bytes, limits.linger).await;
}

/// Why a connection is to end after the request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    OfStop,
    OfAge,
}

/// Up to a tenth longer, so that connections that opened together do not close together. The peer's port is as
/// good as a random number here.
fn spread(age: Duration, peer: SocketAddr) -> Duration {
    let tenth = age / 10;
    age.saturating_add(tenth * u32::from(peer.port() % 64) / 64)
}

/// The app, told who the peer is.
struct PeerService {
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
