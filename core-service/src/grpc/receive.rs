//! Bounds on messages that are still on their way to a method: how long they may take, and how many bytes of
//! them the server keeps. tonic has no setting for either: it begins to count when a message is whole.

mod budgets;
mod framing;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Uri};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

pub(super) use self::budgets::Budgets;
use self::{budgets::HeldBytes, framing::Framing};
use super::{CallMetrics, call_id::CallId, connection::ConnectionInfo, status};
use crate::domain::PetStoreError;

/// How long a call may take from its first header field to the end of its message.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long each message of a stream may take. Longer than a method that takes a stream waits for one.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// What a call counts as that has brought nothing yet, in bytes: its header fields and its place.
const CALL_OVERHEAD: usize = 2 * 1024;

/// Puts the bounds around every service of a server. A connection's own budgets are an extension of its
/// requests.
#[derive(Clone, Debug)]
pub(super) struct ReceiveBounds {
    budgets: Budgets,
    calls: CallMetrics,
}

impl ReceiveBounds {
    pub(super) fn new(calls: CallMetrics) -> Self {
        Self { budgets: Budgets::for_server(), calls }
    }
}

impl<S> Layer<S> for ReceiveBounds {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { bounds: self.clone(), inner }
    }
}

/// When the first header fields of a call had come, as an extension of its request: its deadline runs from
/// then on.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallBegin(pub(super) Instant);

/// A service whose messages come within the bounds.
#[derive(Clone, Debug)]
pub(super) struct Bounded<S> {
    bounds: ReceiveBounds,
    inner: S,
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let begin = Instant::now();
        request.extensions_mut().insert(CallBegin(begin));
        let path = request.uri().path();
        let connection = request.extensions().get::<ConnectionInfo>().map(|connection| &connection.budgets);
        let budgets = [Some(&self.bounds.budgets), connection].into_iter().flatten();
        let held = Arc::new(HeldBytes::new(budgets, path));
        let call = Call {
            uri: request.uri().clone(),
            id: CallId::from_headers(request.headers()),
            begin,
            calls: self.bounds.calls.clone(),
        };
        let pace = if takes_stream(path) { Pace::Stream(Framing::default()) } else { Pace::Message };
        let (kept, is_refused) = (Arc::clone(&held), !held.take(CALL_OVERHEAD));
        let receive = |body| ReceivedBody { body, held, pace, call, is_refused, timer: None };
        let answer = self.inner.call(request.map(|body| Body::new(receive(body))));
        // What the message became stays in memory until the call is answered.
        async move {
            let answer = answer.await;
            drop(kept);
            answer
        }
        .boxed()
    }
}

fn takes_stream(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("ImportPets" | "ServerReflectionInfo"))
}

/// What is needed to refuse a call: for its status, its metrics and its log line.
#[derive(Debug)]
struct Call {
    uri: Uri,
    id: Option<CallId>,
    begin: Instant,
    calls: CallMetrics,
}

impl Call {
    /// The status for a call whose message does not come. Anybody could repeat it at will: so there is no
    /// line in the log above debug.
    fn refuse(&self, error: &PetStoreError) -> Status {
        let rpc = self.uri.path().trim_start_matches('/');
        tracing::debug!(rpc, "{rpc} failed before its message was whole: {error}");
        self.calls.answered(rpc, self.begin.elapsed(), Some(error));
        let mut status = status::without_log(self.id.as_ref(), error);
        if let Some(id) = self.id.clone() {
            id.write(status.metadata_mut());
        }
        status
    }
}

/// What has to come in time.
#[derive(Debug)]
enum Pace {
    /// The one message of a call.
    Message,
    /// Each message of a stream.
    Stream(Framing),
}

/// The body of a request, which fails with a status when it is too slow or too much.
struct ReceivedBody {
    body: Body,
    held: Arc<HeldBytes>,
    pace: Pace,
    call: Call,
    /// There was no place for the call at all. Said when the message is asked for, which only known methods
    /// do.
    is_refused: bool,
    /// Set when the peer has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.is_refused {
            return Poll::Ready(Some(Err(this.call.refuse(&PetStoreError::Overloaded))));
        }
        if let Pace::Stream(framing) = &this.pace {
            // Whoever asks for more has taken what was whole.
            this.held.keep(CALL_OVERHEAD + framing.unfinished());
        }
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let data = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
                if !this.held.take(data.len()) {
                    return Poll::Ready(Some(Err(this.call.refuse(&PetStoreError::Overloaded))));
                }
                if let Pace::Stream(framing) = &mut this.pace
                    && framing.ends_with(data)
                {
                    this.timer = None;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Pending => {
                let end = match this.pace {
                    Pace::Message => this.call.begin + RECEIVE_TIMEOUT,
                    Pace::Stream(_) => Instant::now() + STREAM_TIMEOUT,
                };
                let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
                ready!(timer.poll_unpin(context));
                Poll::Ready(Some(Err(this.call.refuse(&PetStoreError::DeadlineExceeded))))
            }
            end @ Poll::Ready(Some(Err(_)) | None) => end,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
