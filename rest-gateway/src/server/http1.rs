//! A connection of HTTP/1.1, from its first request to its last.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use axum::{Router, body::Body, extract::ConnectInfo, routing::future::RouteFuture};
use http::{HeaderValue, Request, Response, header::CONNECTION};
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};

use super::{
    limits::ServerLimits,
    spread,
    stage::{Stage, StageWatch},
    turn::{Answer, Moment, Noting, Phase, Turn, UnderWay},
};

pub(super) fn builder(limits: &ServerLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.header_read_timeout(None) // it would also end idle connections: `Watch` tells the two apart
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_buf_size)
        // A client that has said all may close its half and still be answered. It also saves a look at the
        // socket during each request; an abandoned request runs to its own deadline.
        .half_close(true);
    http
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// One of the two sides ended it.
    Over,
    /// It did not end when it was to, and has to be cut off.
    Overdue,
}

/// Lets the requests of the connection be served until it ends.
pub(super) async fn converse<I: AsyncRead + AsyncWrite + Unpin + 'static>(
    connection: &mut http1::Connection<TokioIo<Noting<I>>, Http1Service>,
    turn: &Turn,
    peer: SocketAddr,
    limits: &ServerLimits,
    mut stage: StageWatch,
) -> End {
    let mut watch = Watch::new(limits, turn.now(), stage.now(), peer);
    let mut armed = watch.due();
    let mut timer = pin!(sleep_until(armed));
    loop {
        let progress = poll_fn(|context| match connection.poll_without_shutdown(context) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)), // the socket is closed by `linger`
            Poll::Pending if turn.now() != watch.moment => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        tokio::select! {
            biased;
            ended = progress => match ended {
                None => watch.goes_on(turn.now()),
                Some(ended) => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "a connection ended early");
                    }
                    return End::Over;
                }
            },
            () = &mut timer => {
                match watch.what_is_due() {
                    None => {}
                    Some(Due::LastAnswer) => turn.come_of_age(),
                    // hyper takes a connection before its first request for a busy one.
                    Some(Due::Close) if watch.moment.is_before_the_first_request() => return End::Over,
                    Some(Due::Close) => Pin::new(&mut *connection).graceful_shutdown(),
                    Some(Due::CutOff) => {
                        tracing::debug!(%peer, "cut off a connection that did not end when it was to");
                        return End::Overdue;
                    }
                }
                armed = watch.due();
                timer.as_mut().reset(armed);
            }
            stage = stage.next() => watch.stage = stage,
        }
        // A timer that goes off too early is set anew then: that is cheaper than to set it with each request.
        let due = watch.due();
        if due < armed {
            armed = due;
            timer.as_mut().reset(due);
        }
    }
}

/// What is to be done with a connection when time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The next answer is to be the last. An idle connection is not closed for its age: its client may be sending.
    LastAnswer,
    /// The connection is to be closed between two requests.
    Close,
    /// It does not end otherwise.
    CutOff,
}

/// Watches the time of a connection.
#[derive(Debug)]
struct Watch<'a> {
    limits: &'a ServerLimits,
    /// What the connection waits for, and since when.
    moment: Moment,
    since: Instant,
    of_age_at: Instant,
    is_of_age: bool,
    closing_since: Option<Instant>,
    stage: Stage,
}

impl<'a> Watch<'a> {
    fn new(limits: &'a ServerLimits, moment: Moment, stage: Stage, peer: SocketAddr) -> Self {
        let since = Instant::now();
        let of_age_at = since + spread(limits.max_connection_age, peer);
        Self { limits, moment, since, of_age_at, is_of_age: false, closing_since: None, stage }
    }

    fn goes_on(&mut self, moment: Moment) {
        (self.moment, self.since) = (moment, Instant::now());
    }

    /// When there is something to do.
    fn due(&self) -> Instant {
        let limits = self.limits;
        if let Some(since) = self.closing_since {
            return since + limits.connection_age_grace;
        }
        let of_phase = match self.moment.phase() {
            Phase::Silent => Some(self.silent_until()),
            Phase::Head => Some(self.since + limits.header_read_timeout),
            Phase::Request if self.is_of_age => Some(self.of_age_at + limits.connection_age_grace),
            Phase::Request => None,
        };
        match of_phase {
            Some(due) if self.is_of_age => due,
            Some(due) => due.min(self.of_age_at),
            None => self.of_age_at,
        }
    }

    fn silent_until(&self) -> Instant {
        let limits = self.limits;
        let patience =
            if self.moment.is_before_the_first_request() { limits.header_read_timeout } else { limits.idle };
        let until = self.since + patience;
        match self.stage {
            Stage::Closing { draining_since } => until.min(self.since.max(draining_since) + limits.last_word),
            Stage::Serving | Stage::Draining { .. } => until,
        }
    }

    /// What to do now, if it is time.
    fn what_is_due(&mut self) -> Option<Due> {
        let now = Instant::now();
        if now < self.due() {
            return None;
        }
        if self.closing_since.is_some() {
            return Some(Due::CutOff);
        }
        if !self.is_of_age && now >= self.of_age_at {
            self.is_of_age = true;
            return Some(Due::LastAnswer);
        }
        match self.moment.phase() {
            Phase::Silent | Phase::Head => {
                self.closing_since = Some(now);
                Some(Due::Close)
            }
            Phase::Request => Some(Due::CutOff),
        }
    }
}

/// The app, told who the peer is.
#[derive(Debug)]
pub(super) struct Http1Service {
    pub(super) app: Router,
    pub(super) peer: SocketAddr,
    pub(super) turn: Turn,
}

impl Service<Request<Incoming>> for Http1Service {
    type Response = Response<Answer<Body>>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        // A router is always ready, and cheap to clone.
        let answer = tower::Service::call(&mut self.app.clone(), request);
        Answering { answer, under_way: Some(self.turn.request_came()) }
    }
}

/// The answer to a request, on its way. The last one of a connection says that it is.
pub(super) struct Answering {
    answer: RouteFuture<Infallible>,
    /// Until the answer is here, whose body then has it.
    under_way: Option<UnderWay>,
}

impl Future for Answering {
    type Output = Result<Response<Answer<Body>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = match ready!(Pin::new(&mut self.answer).poll(context)) {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let under_way = self.under_way.take();
        if under_way.as_ref().is_some_and(UnderWay::is_the_last) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(answer.map(|body| Answer::new(body, under_way))))
    }
}
