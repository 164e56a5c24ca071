//! HTTP/2 connection, from its first request to its last.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::Request;
use hyper::{body::Incoming, server::conn::http2, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};

use super::{
    App,
    discard_body::{BodyDiscarder, RequestBody},
    drain::{DrainState, DrainWatch},
    limits::ServerLimits,
    streams::Streams,
    with_jitter,
};

pub(super) fn builder(limits: &ServerLimits, streams: Streams) -> http2::Builder<Streams> {
    let mut http = http2::Builder::new(streams);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_streams)
        .max_header_list_size(limits.max_header_list)
        // Number of streams that a peer may open and reset before it is treated as an attacker
        // (CVE-2023-44487), and number of streams that the server may have to reset.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(64)
        // Bytes of bodies that a client may send before they are read, per stream and per connection.
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(1024 * 1024)
        // Bytes of an answer that are kept per stream until the client takes them.
        .max_send_buf_size(64 * 1024)
        // Ping of a silent client, to detect a lost connection.
        .keep_alive_interval(Duration::from_secs(15))
        .keep_alive_timeout(Duration::from_secs(5));
    http
}

/// Serves the requests of the connection and returns when it ends, the server stops, or it reaches its
/// maximum age or is idle. Then it sends GOAWAY, and answers the requests that the client sends before it
/// receives that.
pub(super) async fn drive<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    connection: &mut http2::Connection<TokioIo<I>, Http2Service, Streams>,
    streams: &Streams,
    peer: SocketAddr,
    limits: &ServerLimits,
    mut drain: DrainWatch,
) {
    let mut idle = pin!(streams.idle_for(limits.idle));
    let mut used = pin!(streams.used());
    let mut age = pin!(sleep(with_jitter(limits.max_connection_age, peer)));
    let mut closing = Closing::No;
    let mut at = drain.now();
    loop {
        let ended = poll_fn(|context| Pin::new(&mut *connection).poll(context));
        tokio::select! {
            biased;
            ended = ended => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection ended early");
                }
                return;
            }
            () = &mut age => {
                if closing == Closing::WithinGrace {
                    tracing::debug!(%peer, "cut off a connection that did not end when it was to");
                    return;
                }
                closing = Closing::WithinGrace;
                age.set(sleep(limits.connection_age_grace));
            }
            () = &mut idle, if closing == Closing::No => {
                closing = Closing::WithinGrace;
                age.set(sleep(limits.connection_age_grace));
            }
            // While the server drains, a new connection may send one request: otherwise it would be useless.
            () = &mut used, if matches!(at, DrainState::Draining { .. }) && closing == Closing::No => {
                closing = Closing::ServerStops;
            }
            next = drain.next() => {
                at = next;
                if closing != Closing::No || !matches!(next, DrainState::Closing { .. }) {
                    continue;
                }
                closing = Closing::ServerStops;
            }
        }
        Pin::new(&mut *connection).graceful_shutdown();
    }
}

/// Reason why a connection ends after the requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// The server stops, and cuts the connection off at its own deadline.
    ServerStops,
    /// The connection has reached its maximum age, or is idle.
    WithinGrace,
}

/// App for the requests of one peer.
#[derive(Debug)]
pub(super) struct Http2Service {
    pub(super) app: Arc<dyn App>,
    pub(super) peer: SocketAddr,
    pub(super) discarder: BodyDiscarder,
}

impl Service<Request<Incoming>> for Http2Service {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let request = request.map(|body| Body::new(RequestBody::of_stream(body, self.discarder.clone())));
        self.app.answer(request, self.peer).map(Ok).boxed()
    }
}
