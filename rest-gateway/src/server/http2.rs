//! A connection of HTTP/2, from its first request to its last.

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

/// Streams that a peer may open and reset before it is taken for an attacker (CVE-2023-44487), and streams
/// that we may have to reset.
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

pub(super) fn builder(limits: &ServerLimits, streams: Streams) -> http2::Builder<Streams> {
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

/// Lets the requests of the connection be served until it ends, the server stops, or it reaches its maximum
/// age or is idle. Then its client is told so (GOAWAY), and what it has sent until it knows is still
/// answered.
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
            // While the server drains, a new connection may bring a request: it would be of no use otherwise.
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

/// Whether a connection is to end after the requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// The server stops, and cuts it off itself at its deadline.
    ServerStops,
    /// It is of age or idle.
    WithinGrace,
}

/// The app, told who the peer is.
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
