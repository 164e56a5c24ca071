//! HTTP/2 connection, from its first request to its last.

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use hyper::{body::Incoming, rt::Executor, server::conn::http2, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use petstore_telemetry::abandoned::ToItsEnd;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};

use super::{
    Connections, HttpPeer, ServerLimits,
    activity::{Activity, ConnectionPhase, DrainState, TrackedBody},
    add_fields,
    discard_body::RequestBody,
    stream::ObservedStream,
    with_jitter,
};

pub(super) fn builder(limits: &ServerLimits, streams: Streams) -> http2::Builder<Streams> {
    let mut http = http2::Builder::new(streams);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_streams)
        // Bytes of the header fields, as RFC 9113 §6.5.2 counts them; with more, the answer is 431 without an
        // Error body.
        .max_header_list_size(64 * 1024)
        // Number of streams that a peer may open and reset before it is treated as an attacker
        // (CVE-2023-44487), and number of streams that the server may have to reset.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(64)
        // Bytes of bodies that a client may send before they are read, per stream and per connection.
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(1024 * 1024)
        // Bytes of an answer that are kept per stream until the client takes them.
        .max_send_buf_size(64 * 1024)
        // No pings: many clients read nothing while they are idle, and so would not answer. A lost connection
        // ends like an idle one.
        .keep_alive_interval(None);
    http
}

/// Serves the requests of the connection and returns when it ends, the server stops, or it reaches its
/// maximum age or is idle. Then it sends GOAWAY, and answers the requests that the client sends before it
/// receives that. Once the server closes, it does not wait for a client that reads nothing. A connection
/// whose first request does not arrive in time just ends.
pub(super) async fn drive<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    connection: &mut http2::Connection<TokioIo<ObservedStream<I>>, Http2Service, Streams>,
    activity: &Activity,
    peer: SocketAddr,
    server: &Connections,
    streams: &Streams,
) {
    let (limits, mut drain) = (&server.limits, server.drain.clone());
    let mut idle = pin!(streams.idle_for(limits.idle));
    let mut unread = pin!(streams.unread_for(limits.idle_grace, activity));
    let mut used = pin!(streams.used());
    let mut head = pin!(timeout(limits.header_read_timeout, streams.used()).fuse());
    let mut age = pin!(sleep(with_jitter(limits.max_connection_age, peer)));
    let mut closing = Closing::No;
    let mut at = *drain.borrow();
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
            Err(_) = &mut head => return,
            () = &mut age => {
                if closing == Closing::WithinGrace {
                    tracing::debug!(%peer, "cut off a connection that did not end in time");
                    return;
                }
                closing = Closing::WithinGrace;
                age.set(sleep(limits.connection_age_grace));
            }
            () = &mut idle, if closing == Closing::No => {
                closing = Closing::WithinGrace;
                age.set(sleep(limits.connection_age_grace));
            }
            () = &mut unread, if matches!(at, DrainState::Closing { .. }) => return,
            // While the server drains, a new connection may send one request: otherwise it would be useless.
            () = &mut used, if at == DrainState::Draining && closing == Closing::No => {
                closing = Closing::ServerStops;
            }
            Ok(()) = drain.changed() => {
                at = *drain.borrow_and_update();
                if closing != Closing::No || !matches!(at, DrainState::Closing { .. }) {
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
pub(super) struct Http2Service {
    pub(super) server: Arc<Connections>,
    pub(super) peer: HttpPeer,
    pub(super) streams: Streams,
    pub(super) activity: Activity,
}

impl Service<Request<Incoming>> for Http2Service {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<TrackedBody>, Infallible>>;

    /// Answers the request once there is a place for it. hyper drops the future when the client resets the
    /// stream or leaves. The app then continues, so that the request is counted and recorded.
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (server, peer) = (Arc::clone(&self.server), self.peer.clone());
        let (streams, activity) = (self.streams.clone(), self.activity.clone());
        let request = request.map(|body| Body::new(RequestBody::of_stream(body, Arc::clone(&server))));
        async move {
            let place = (streams.place().await, activity.app_works());
            let answer = server.app.answer(request, peer).inspect(move |_| drop(place));
            let mut answer = ToItsEnd::new(answer).await;
            add_fields(&mut answer, server.hsts.clone());
            Ok(answer.map(|body| TrackedBody::of_stream(body, &activity)))
        }
        .boxed()
    }
}

/// Executor of requests, which runs each as a task with a deadline, and counts them.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    deadline: Duration,
    requests: watch::Sender<Requests>,
    /// Places for requests that the app works on. A client that resets a stream may begin another, so the
    /// number of streams does not bound the work.
    places: Arc<Semaphore>,
    maximum: u32,
}

/// Requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    in_flight: u32,
    has_been_any: bool,
    /// `true` once the connection has ended: no request begins any more.
    is_over: bool,
}

impl Streams {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let (deadline, maximum) = (limits.stream_deadline, limits.max_streams);
        let places = Arc::new(Semaphore::new(maximum as usize));
        Self { deadline, requests: watch::Sender::new(Requests::default()), places, maximum }
    }

    /// Waits for a place.
    async fn place(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.places).acquire_owned().await {
            Ok(place) if !self.requests.borrow().is_over => place,
            _ => pending().await, // hyper is about to drop the request
        }
    }

    /// Waits for the requests that the app still works on, after the end of the connection.
    pub(super) async fn end(&self) {
        self.requests.send_modify(|requests| requests.is_over = true);
        let _ = self.places.acquire_many(self.maximum).await; // the semaphore is never closed
    }

    /// Waits for a period of length `time` in which the client sent nothing, everything was written, and no
    /// request was in flight.
    async fn unread_for(&self, time: Duration, activity: &Activity) {
        loop {
            activity.forget_bytes();
            self.idle_for(time).await;
            if activity.now().phase == ConnectionPhase::Idle && !activity.has_unsent() {
                return;
            }
        }
    }

    /// Waits for a period of length `time` without a request in flight.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut requests = self.requests.subscribe();
        loop {
            // Cannot fail while `self` is here, which has the sender.
            let _ = requests.wait_for(|requests| requests.in_flight == 0).await;
            if timeout(time, requests.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for the first request.
    pub(super) async fn used(&self) {
        let _ = self.requests.subscribe().wait_for(|requests| requests.has_been_any).await; // as above
    }
}

/// Resets a request at its deadline: its answer waits for a window that does not open.
impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, request: F) {
        self.requests.send_modify(|requests| {
            requests.in_flight = requests.in_flight.saturating_add(1);
            requests.has_been_any = true;
        });
        let counted = StreamInFlight(self.requests.clone());
        let deadline = self.deadline;
        tokio::spawn(async move {
            if timeout(deadline, request).await.is_err() {
                tracing::debug!("cancelled a request whose response was not read");
            }
            drop(counted);
        });
    }
}

/// A request in flight, until it is dropped.
struct StreamInFlight(watch::Sender<Requests>);

impl Drop for StreamInFlight {
    fn drop(&mut self) {
        self.0.send_modify(|requests| requests.in_flight = requests.in_flight.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::{sync::oneshot, time::sleep};

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);
    const NEVER: Duration = Duration::from_mins(10);

    fn streams(stream_deadline: Duration) -> Streams {
        Streams::new(&ServerLimits { stream_deadline, max_streams: 2, ..ServerLimits::default() })
    }

    #[tokio::test]
    async fn a_connection_is_idle_from_the_end_of_its_last_request() {
        let (streams, begin) = (streams(NEVER), Instant::now());
        streams.execute(sleep(SHORT));
        streams.execute(sleep(3 * SHORT));
        streams.idle_for(SHORT).await;
        assert!(begin.elapsed() >= 4 * SHORT, "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_or_panics_counts_no_longer_than_its_deadline() {
        let streams = streams(SHORT);
        let (kept, dropped) = oneshot::channel::<()>();
        streams.execute(async move {
            let _kept = kept;
            pending::<()>().await;
        });
        streams.execute(async { panic!("planted") });
        dropped.await.unwrap_err();
        streams.idle_for(SHORT).await;
    }

    #[tokio::test]
    async fn a_request_waits_for_a_place_and_does_not_begin_after_the_end_of_its_connection() {
        let streams = streams(NEVER);
        let (first, _second) = (streams.place().await, streams.place().await);
        assert!(timeout(SHORT, streams.place()).await.is_err());
        let (waiting, ending) = (streams.place(), streams.end());
        tokio::pin!(waiting, ending);
        assert!(timeout(SHORT, &mut waiting).await.is_err());
        assert!(timeout(SHORT, &mut ending).await.is_err(), "two requests have not ended");
        drop(first);
        assert!(timeout(SHORT, &mut waiting).await.is_err());
    }
}
