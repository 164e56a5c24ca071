//! Bounds on messages that are still on their way to a method: how long they may take, and how many bytes of
//! them the server keeps. tonic has no setting for either: it begins to count when a message is whole.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Uri};
use http_body::{Frame, SizeHint};
use petstore_proto::internal::v1::batch_service_server;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, Sleep, sleep_until},
};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{
    CallMetrics, INTERNAL_PACKAGES, MAX_MESSAGE, call_id::CallId, message_size::MAX_BULK_MESSAGE, status,
};
use crate::domain::PetStoreError;

/// How long a call may take from its first header field to the end of its message.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long each message of a stream may take. Longer than a method that takes a stream waits for one.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// What a call counts as that has brought nothing yet, in bytes: its header fields and its place.
const CALL_OVERHEAD: usize = 2 * 1024;

const MIB: usize = 1024 * 1024;
/// One connection may take so much of a budget that others are left the rest.
const CONNECTION_SHARE: usize = 4;

/// The bytes of calls that are not answered yet. Calls that cannot do without each other have a budget of
/// their own, so that a flood of one kind never refuses another. Clones share them; none is ever closed.
#[derive(Clone, Debug)]
pub(super) struct Budgets {
    /// Calls about pets and orders, alone or in batches: 12 of the largest messages on one connection.
    data: Arc<Semaphore>,
    /// Calls of gateways about keys, bans and usage: 16 of the largest messages on one connection.
    internal: Arc<Semaphore>,
    /// Health, which everybody may ask for, and reflection.
    tools: Arc<Semaphore>,
}

impl Budgets {
    /// Those of a server, over all its connections.
    pub(super) fn of_server() -> Self {
        Self::divided_by(1)
    }

    /// Those of one connection.
    pub(super) fn of_connection() -> Self {
        Self::divided_by(CONNECTION_SHARE)
    }

    fn divided_by(divisor: usize) -> Self {
        let budget = |bytes: usize| Arc::new(Semaphore::new(bytes / divisor));
        Self { data: budget(64 * MIB), internal: budget(16 * MIB), tools: budget(16 * MIB) }
    }

    /// The budget of a call, by its path: `/package.Service/Method`.
    fn of(&self, path: &str) -> &Arc<Semaphore> {
        let is_of = |package: &str| path.strip_prefix('/').is_some_and(|rpc| rpc.starts_with(package));
        if is_of(batch_service_server::SERVICE_NAME) {
            &self.data
        } else if is_of(INTERNAL_PACKAGES) {
            &self.internal
        } else if is_of("petstore.") {
            &self.data
        } else {
            &self.tools
        }
    }
}

const _: () = assert!(MAX_BULK_MESSAGE * 12 <= 64 * MIB / CONNECTION_SHARE);
const _: () = assert!(MAX_MESSAGE * 16 <= 16 * MIB / CONNECTION_SHARE);

/// Puts the bounds around every service of a server. A connection's own budgets are an extension of its
/// requests.
#[derive(Clone, Debug)]
pub(super) struct ReceiveBounds {
    budgets: Budgets,
    calls: CallMetrics,
}

impl ReceiveBounds {
    pub(super) fn new(calls: CallMetrics) -> Self {
        Self { budgets: Budgets::of_server(), calls }
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
        let connection = request.extensions().get::<Budgets>();
        let budgets = [Some(&self.bounds.budgets), connection].into_iter().flatten();
        let held = Arc::new(Held {
            budgets: budgets.map(|budgets| Arc::clone(budgets.of(path))).collect(),
            bytes: AtomicUsize::new(0),
        });
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

/// What a call holds of the budgets, until it is dropped.
#[derive(Debug)]
struct Held {
    budgets: Vec<Arc<Semaphore>>,
    bytes: AtomicUsize,
}

impl Held {
    /// Whether so many bytes more could be had.
    fn take(&self, bytes: usize) -> bool {
        let Ok(permits) = u32::try_from(bytes) else { return false };
        let taken: Result<Vec<_>, _> =
            self.budgets.iter().map(|budget| budget.try_acquire_many(permits)).collect();
        let Ok(taken) = taken else { return false }; // what was taken of one is given back
        taken.into_iter().for_each(SemaphorePermit::forget);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Gives back all but so many bytes.
    fn keep(&self, bytes: usize) {
        let held = self.bytes.fetch_min(bytes, Ordering::Relaxed);
        self.budgets.iter().for_each(|budget| budget.add_permits(held.saturating_sub(bytes)));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keep(0);
    }
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
    held: Arc<Held>,
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

/// Where the messages of a stream end: each has a flag and its length, in 5 bytes, before it.
#[derive(Debug, Default)]
struct Framing {
    /// How much of the 5 bytes has come.
    prefix: usize,
    /// The length that they say.
    len: usize,
    /// How much of the message has come.
    come: usize,
}

impl Framing {
    const PREFIX: usize = 5;

    /// How many bytes have come of a message that is not whole.
    fn unfinished(&self) -> usize {
        self.prefix + self.come
    }

    /// Takes note of what has come next; whether a message ended in it.
    fn ends_with(&mut self, mut data: &[u8]) -> bool {
        let mut has_ended = false;
        while let Some((byte, rest)) = data.split_first() {
            if self.prefix < Self::PREFIX {
                self.len = if self.prefix == 0 { 0 } else { self.len << 8 | usize::from(*byte) };
                self.prefix += 1;
                data = rest;
            } else {
                let more = data.len().min(self.len - self.come);
                self.come += more;
                data = data.get(more..).unwrap_or_default();
            }
            if self.prefix == Self::PREFIX && self.come == self.len {
                *self = Self::default();
                has_ended = true;
            }
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(len: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(len).unwrap().to_be_bytes());
        bytes.extend(vec![b'x'; len]);
        bytes
    }

    #[test]
    fn the_ends_of_messages_are_found_wherever_the_data_is_cut() {
        let lens = [0, 1, 255, 256, 70_000, 0, 3];
        let bytes: Vec<u8> = lens.into_iter().flat_map(framed).collect();
        for size in [1, 2, 5, 7, 4_096, bytes.len()] {
            let (mut framing, mut ended) = (Framing::default(), 0);
            for data in bytes.chunks(size) {
                ended += usize::from(framing.ends_with(data));
            }
            assert_eq!(framing.unfinished(), 0, "{size}");
            assert!(ended > 0 && (size > 1 || ended == lens.len()), "{size}: {ended}");
        }
    }

    #[test]
    fn what_has_come_of_an_unfinished_message_is_known() {
        let mut framing = Framing::default();
        let bytes = framed(10);
        for come in 1..bytes.len() {
            assert!(!framing.ends_with(&bytes[come - 1..come]));
            assert_eq!(framing.unfinished(), come);
        }
        assert!(framing.ends_with(&bytes[bytes.len() - 1..]));
    }

    #[test]
    fn a_call_takes_of_every_budget_or_of_none_and_gives_all_back() {
        let budgets = [10, 5].map(|bytes| Arc::new(Semaphore::new(bytes)));
        let held = Held { budgets: budgets.to_vec(), bytes: AtomicUsize::new(0) };
        let left = || budgets.each_ref().map(|budget| budget.available_permits());
        assert!(held.take(4) && !held.take(2));
        assert_eq!(left(), [6, 1]);
        held.keep(3);
        assert_eq!(left(), [7, 2]);
        drop(held);
        assert_eq!(left(), [10, 5]);
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_budget() {
        let budgets = Budgets::of_connection();
        let kinds = [
            "/petstore.v1.PetStore/ListPets",
            "/petstore.internal.v1.KeyService/ListChanges",
            "/grpc.health.v1.Health/Check",
        ];
        assert!(Arc::ptr_eq(budgets.of("/petstore.internal.v1.BatchService/Call"), &budgets.data));
        for (at, kind) in kinds.iter().enumerate() {
            let _all = budgets
                .of(kind)
                .try_acquire_many(u32::try_from(budgets.of(kind).available_permits()).unwrap());
            let free = kinds.map(|kind| budgets.of(kind).available_permits() > 0);
            assert_eq!(free, [0, 1, 2].map(|other| other != at));
        }
    }
}
