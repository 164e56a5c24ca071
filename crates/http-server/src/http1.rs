//! HTTP/1.1 connection, from its first request to its last.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{body::Body, response::Response as AppResponse};
use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Response, header::EXPECT};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::Service,
};
use hyper_util::rt::TokioIo;
use petstore_telemetry::abandoned::ToItsEnd;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, sleep_until},
};

use super::{
    Connections, HttpPeer,
    activity::{
        Activity, BodyState, ConnectionPhase, RequestInFlight, Snapshot, TrackedBody,
        idle_connections_expired,
    },
    add_fields,
    discard_body::{RequestBody, after_discarding, close_after},
    stream::ObservedStream,
    with_jitter,
};

pub(super) fn builder() -> http1::Builder {
    let mut http = http1::Builder::new();
    // It would be set for each request, and also end idle connections; `Driver` distinguishes the two.
    http.header_read_timeout(None)
        // With more header fields, or a longer head in bytes, the answer is 431 without an Error body. hyper
        // allocates and fills the room for them at each request: that for 256 took 5 % of a get.
        .max_headers(128)
        .max_buf_size(64 * 1024)
        // A client that has sent everything may close its half and still be answered. It also saves polling
        // the socket during each request; an abandoned request runs to its own deadline.
        .half_close(true);
    http
}

/// Outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// One of the two sides ended it.
    Over,
    /// It did not end in time, and has to be cut off.
    Overdue,
    /// It did not end, but no request has been in flight for a while.
    Quiet,
}

/// Driver of a connection, which serves its requests within their time limits. Time is looked at in
/// intervals: a timer for each request would cost more.
pub(super) struct Driver<'a> {
    server: &'a Connections,
    activity: Activity,
    peer: SocketAddr,
    expires_at: Instant,
    /// Activity when it was last looked at.
    seen: Snapshot,
    /// Time since when the activity is the same; until the first request, that of the opening.
    since: Instant,
}

impl<'a> Driver<'a> {
    pub(super) fn new(server: &'a Connections, activity: Activity, peer: SocketAddr) -> Self {
        let (seen, since) = (activity.now(), Instant::now());
        let expires_at = since + with_jitter(server.limits.max_connection_age, peer);
        Self { server, activity, peer, expires_at, seen, since }
    }

    /// Serves requests until the connection ends or is quiet.
    pub(super) async fn drive<I: AsyncRead + AsyncWrite + Unpin + 'static>(
        &mut self,
        connection: &mut http1::Connection<TokioIo<ObservedStream<I>>, Http1Service>,
    ) -> End {
        let mut next_look = pin!(sleep(self.server.limits.rest_after));
        loop {
            if Instant::now() >= self.expires_at {
                // An idle connection is not closed for its age, because its client may be sending.
                self.activity.expire();
            }
            tokio::select! {
                biased;
                // The socket is closed by `lingering_close`.
                ended = poll_fn(|context| connection.poll_without_shutdown(context)) => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %self.peer, %error, "a connection ended early");
                    }
                    return End::Over;
                }
                () = &mut next_look => {
                    if let Some(end) = self.due_end() {
                        return end;
                    }
                    next_look.set(sleep(self.server.limits.rest_after));
                }
            }
        }
    }

    /// Returns how the connection ends now, if it does.
    fn due_end(&mut self) -> Option<End> {
        let (now, seen, limits) = (Instant::now(), self.activity.now(), &self.server.limits);
        if seen != self.seen {
            self.seen = seen;
            if seen.requests > 0 {
                self.since = now;
            }
            return None;
        }
        match seen.phase {
            ConnectionPhase::Request => {
                (now >= self.expires_at + limits.connection_age_grace).then_some(End::Overdue)
            }
            // A response is still being sent.
            _ if self.activity.has_unsent() => None,
            ConnectionPhase::Idle => Some(End::Quiet),
            ConnectionPhase::Head => (now >= self.since + limits.header_read_timeout).then_some(End::Over),
        }
    }

    /// Waits for the first bytes of the next request on a quiet connection. Returns `false` if the connection
    /// should be closed instead.
    pub(super) async fn rest<I: AsyncRead + Unpin>(&self, stream: &mut ObservedStream<I>) -> bool {
        let Self { server: Connections { limits, drain, .. }, seen, since, .. } = self;
        let timeout = if seen.requests == 0 { limits.header_read_timeout } else { limits.idle };
        tokio::select! {
            biased;
            more = stream.has_more() => more.unwrap_or_else(|error| {
                tracing::debug!(peer = %self.peer, %error, "a connection ended early");
                false
            }),
            () = sleep_until(*since + timeout) => false,
            () = idle_connections_expired(drain.clone(), *since, limits.idle_grace) => false,
        }
    }
}

/// App for the requests of one peer.
pub(super) struct Http1Service {
    pub(super) server: Arc<Connections>,
    pub(super) peer: HttpPeer,
    pub(super) activity: Activity,
}

impl Service<Request<Incoming>> for Http1Service {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let activity = &self.activity;
        let is_asked_for = request.headers().contains_key(EXPECT);
        let has_body = !request.body().is_end_stream();
        let request = request.map(|body| {
            if has_body {
                Body::new(RequestBody::of_connection(body, is_asked_for, activity.clone()))
            } else {
                Body::empty()
            }
        });
        // A connection that is cut off or reset drops the future.
        let answer = ToItsEnd::new(self.server.app.answer(request, self.peer.clone()));
        let server = Arc::clone(&self.server);
        ResponseFuture { answer, server, in_flight: Some(activity.request_received()) }
    }
}

/// Future of an answer by the app, and of the end of a body that the app did not read. The last answer of a
/// connection announces the close.
pub(super) struct ResponseFuture {
    answer: ToItsEnd<BoxFuture<'static, AppResponse>>,
    server: Arc<Connections>,
    /// `None` once the answer exists, whose body then holds it.
    in_flight: Option<RequestInFlight>,
}

impl Future for ResponseFuture {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = ready!(Pin::new(&mut self.answer).poll(context));
        if let Some(in_flight) = &self.in_flight {
            let is_last = in_flight.is_last();
            match in_flight.answered() {
                BodyState::Unread(body) if !is_last => {
                    let discarded = after_discarding(answer, body, Arc::clone(&self.server));
                    self.answer = ToItsEnd::new(discarded.boxed());
                    return self.poll(context);
                }
                BodyState::Done if !is_last => {}
                BodyState::Done | BodyState::Unread(_) | BodyState::WithApp | BodyState::Broken => {
                    close_after(&mut answer);
                }
            }
        }
        add_fields(&mut answer, self.server.hsts.clone());
        let in_flight = self.in_flight.take();
        Poll::Ready(Ok(answer.map(|body| TrackedBody::new(body, in_flight))))
    }
}
