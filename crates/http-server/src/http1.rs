//! HTTP/1.1 connection, from its first request to its last.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    ops::ControlFlow,
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
    time::{Instant, sleep_until},
};

use super::{
    App, ServerLimits,
    activity::{
        Activity, BodyState, ConnectionPhase, ObservedStream, RequestInFlight, Snapshot, TrackedBody,
    },
    discard_body::{RequestBody, after_discarding, close_after},
    drain::{DrainState, DrainWatch},
    with_jitter,
};

pub(super) fn builder(limits: &ServerLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    // It would also end idle connections; `ConnectionTimer` distinguishes the two
    http.header_read_timeout(None)
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_buf_size)
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

/// Driver of a connection, which serves its requests within their time limits.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    timer: ConnectionTimer<'a>,
    activity: Activity,
    drain: DrainWatch,
    peer: SocketAddr,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        limits: &'a ServerLimits,
        activity: Activity,
        drain: DrainWatch,
        peer: SocketAddr,
    ) -> Self {
        Self { timer: ConnectionTimer::new(limits, activity.now(), drain.now(), peer), activity, drain, peer }
    }

    /// Serves requests until the connection ends or is quiet.
    pub(super) async fn drive<I: AsyncRead + AsyncWrite + Unpin + 'static>(
        &mut self,
        connection: &mut http1::Connection<TokioIo<ObservedStream<I>>, Http1Service>,
    ) -> End {
        let Self { timer, activity, drain, peer } = self;
        let before = activity.now().requests;
        timer.wake();
        let mut armed = timer.due();
        let mut sleep = pin!(sleep_until(armed));
        loop {
            let progress = poll_fn(|context| match connection.poll_without_shutdown(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)), // the socket is closed by `lingering_close`
                Poll::Pending if activity.now() != timer.activity => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            tokio::select! {
                biased;
                ended = progress => match ended {
                    None => timer.activity_changed(activity.now()),
                    Some(ended) => {
                        if let Err(error) = ended {
                            tracing::debug!(%peer, %error, "a connection ended early");
                        }
                        return End::Over;
                    }
                },
                () = &mut sleep => {
                    match timer.due_action() {
                        None => {}
                        Some(DueAction::Rest) if activity.is_quiet() => return End::Quiet,
                        Some(DueAction::Rest) => timer.wake(), // an answer is still being sent
                        Some(DueAction::LastAnswer) => activity.expire(),
                        // hyper treats a connection before its first request as busy.
                        Some(DueAction::Close) if activity.now().requests == before => return End::Over,
                        Some(DueAction::Close) => Pin::new(&mut *connection).graceful_shutdown(),
                        Some(DueAction::CutOff) => {
                            tracing::debug!(%peer, "cut off a connection that did not end in time");
                            return End::Overdue;
                        }
                    }
                    armed = timer.due();
                    sleep.as_mut().reset(armed);
                }
                drain = drain.next() => timer.drain = drain,
            }
            // A timer that fires too early is then reset, which is cheaper than to set it with each request.
            let due = timer.due();
            if due < armed {
                armed = due;
                sleep.as_mut().reset(due);
            }
        }
    }

    /// Waits for the first bytes of the next request on a quiet connection. Returns `Break` if the connection
    /// should be closed instead.
    pub(super) async fn rest<I: AsyncRead + Unpin>(
        &mut self,
        stream: &mut ObservedStream<I>,
    ) -> ControlFlow<()> {
        let Self { timer, activity, drain, peer } = self;
        timer.rest_at = None;
        let mut sleep = pin!(sleep_until(timer.due()));
        loop {
            tokio::select! {
                biased;
                more = stream.has_more() => return match more {
                    Ok(true) => ControlFlow::Continue(()),
                    Ok(false) => ControlFlow::Break(()),
                    Err(error) => {
                        tracing::debug!(%peer, %error, "a connection ended early");
                        ControlFlow::Break(())
                    }
                },
                () = &mut sleep => match timer.due_action() {
                    None | Some(DueAction::Rest) => {}
                    Some(DueAction::LastAnswer) => activity.expire(),
                    Some(DueAction::Close | DueAction::CutOff) => return ControlFlow::Break(()),
                },
                drain = drain.next() => timer.drain = drain,
            }
            sleep.as_mut().reset(timer.due());
        }
    }
}

/// Next step for a connection whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DueAction {
    /// Release the memory for requests.
    Rest,
    /// Close after the next answer. An idle connection is not closed for its age, because its client may be
    /// sending.
    LastAnswer,
    /// Close between two requests.
    Close,
    /// Close at once.
    CutOff,
}

/// Timer of a connection.
#[derive(Debug)]
struct ConnectionTimer<'a> {
    limits: &'a ServerLimits,
    /// Activity of the connection since `since`.
    activity: Snapshot,
    since: Instant,
    expires_at: Instant,
    is_expired: bool,
    closing_since: Option<Instant>,
    /// Time at which the connection begins to rest if there is no request before. `None` while it rests.
    rest_at: Option<Instant>,
    drain: DrainState,
}

impl<'a> ConnectionTimer<'a> {
    fn new(limits: &'a ServerLimits, activity: Snapshot, drain: DrainState, peer: SocketAddr) -> Self {
        let since = Instant::now();
        let expires_at = since + with_jitter(limits.max_connection_age, peer);
        let rest_at = Some(since + limits.rest_after);
        Self { limits, activity, since, expires_at, is_expired: false, closing_since: None, rest_at, drain }
    }

    fn activity_changed(&mut self, activity: Snapshot) {
        (self.activity, self.since) = (activity, Instant::now());
        self.rest_at = Some(self.since + self.limits.rest_after);
    }

    /// Postpones the rest.
    fn wake(&mut self) {
        self.rest_at = Some(Instant::now() + self.limits.rest_after);
    }

    /// Returns the time at which the next step is due.
    fn due(&self) -> Instant {
        let limits = self.limits;
        if let Some(since) = self.closing_since {
            return since + limits.connection_age_grace;
        }
        let of_phase = match self.activity.phase {
            ConnectionPhase::Idle => {
                Some(self.rest_at.map_or_else(|| self.idle_until(), |at| at.min(self.idle_until())))
            }
            ConnectionPhase::Head => Some(self.since + limits.header_read_timeout),
            ConnectionPhase::Request if self.is_expired => {
                Some(self.expires_at + limits.connection_age_grace)
            }
            ConnectionPhase::Request => None,
        };
        match of_phase {
            Some(due) if self.is_expired => due,
            Some(due) => due.min(self.expires_at),
            None => self.expires_at,
        }
    }

    fn idle_until(&self) -> Instant {
        let limits = self.limits;
        let timeout =
            if self.activity.is_before_first_request() { limits.header_read_timeout } else { limits.idle };
        let until = self.since + timeout;
        match self.drain {
            DrainState::Closing { draining_since } => {
                until.min(self.since.max(draining_since) + limits.idle_grace)
            }
            DrainState::Serving | DrainState::Draining { .. } => until,
        }
    }

    /// Returns the next step if it is due.
    fn due_action(&mut self) -> Option<DueAction> {
        let now = Instant::now();
        if now < self.due() {
            return None;
        }
        if self.closing_since.is_some() {
            return Some(DueAction::CutOff);
        }
        if !self.is_expired && now >= self.expires_at {
            self.is_expired = true;
            return Some(DueAction::LastAnswer);
        }
        match self.activity.phase {
            ConnectionPhase::Idle if now < self.idle_until() => Some(DueAction::Rest),
            ConnectionPhase::Idle | ConnectionPhase::Head => {
                self.closing_since = Some(now);
                Some(DueAction::Close)
            }
            ConnectionPhase::Request => Some(DueAction::CutOff),
        }
    }
}

/// App for the requests of one peer.
#[derive(Debug)]
pub(super) struct Http1Service {
    pub(super) app: Arc<dyn App>,
    pub(super) peer: SocketAddr,
    pub(super) limits: Arc<ServerLimits>,
    pub(super) activity: Activity,
}

impl Service<Request<Incoming>> for Http1Service {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let is_asked_for = request.headers().contains_key(EXPECT);
        let has_body = !request.body().is_end_stream();
        let request = request.map(|body| {
            if has_body {
                Body::new(RequestBody::of_connection(body, is_asked_for, self.activity.clone()))
            } else {
                Body::empty()
            }
        });
        // A connection that is cut off or reset drops the future.
        let answer = ToItsEnd::new(self.app.answer(request, self.peer));
        let limits = Arc::clone(&self.limits);
        ResponseFuture { answer, limits, in_flight: Some(self.activity.request_received()) }
    }
}

/// Future of an answer by the app, and of the end of a body that the app did not read. The last answer of a
/// connection announces the close.
pub(super) struct ResponseFuture {
    answer: ToItsEnd<BoxFuture<'static, AppResponse>>,
    limits: Arc<ServerLimits>,
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
                    let discarded = after_discarding(answer, body, Arc::clone(&self.limits));
                    self.answer = ToItsEnd::new(discarded.boxed());
                    return self.poll(context);
                }
                BodyState::Done if !is_last => {}
                BodyState::Done | BodyState::Unread(_) | BodyState::WithApp | BodyState::Broken => {
                    close_after(&mut answer);
                }
            }
        }
        let in_flight = self.in_flight.take();
        Poll::Ready(Ok(answer.map(|body| TrackedBody::new(body, in_flight))))
    }
}
