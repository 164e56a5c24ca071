//! Activity of a connection, of HTTP/2 only its bytes and whether the app works, and the graceful shutdown
//! that ends it. hyper does not report activity, so it is observed from both sides: at the stream and at the
//! app.

use std::{
    future::pending,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::body::Body as AppBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

use super::connection_slots::{OpenConnection, UnreadBytes};

/// Event that an HTTP/1.1 connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// First byte of a request.
    Idle,
    /// Rest of a request's head.
    Head,
    /// Body of the request, or its answer.
    Request,
}

/// Phase of an HTTP/1.1 connection and the number of its requests. Clones share them. They are used by the
/// connection's own task.
#[derive(Clone)]
pub(super) struct Activity(pub(super) Arc<ActivityState>);

pub(super) struct ActivityState {
    now: Mutex<Snapshot>,
    is_expired: AtomicBool,
    /// `true` while bytes of an answer may still have to be sent.
    has_unsent: AtomicBool,
    pub(super) connection: Arc<OpenConnection>,
    /// Body of the current request.
    body: Mutex<BodyState>,
    drain: DrainWatch,
}

/// Body of the current request of an HTTP/1.1 connection.
#[derive(Debug, Default)]
pub(super) enum BodyState {
    /// No body, or it was read to its end.
    #[default]
    Done,
    /// The app has it.
    WithApp,
    /// The app has dropped it without reading any of it.
    Unread(Incoming),
    /// The app has read a part of it.
    Broken,
}

/// Activity at one time. Two values are equal only if there was no activity between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) phase: ConnectionPhase,
    /// Number of requests so far.
    pub(super) requests: u64,
}

impl Activity {
    /// Returns the activity of a new connection, to a server whose drain makes each answer the last of its
    /// connection.
    pub(super) fn new(drain: DrainWatch, connection: Arc<OpenConnection>) -> Self {
        let [is_expired, has_unsent] = [false; 2].map(AtomicBool::new);
        let now = Mutex::new(Snapshot { phase: ConnectionPhase::Idle, requests: 0 });
        let body = Mutex::default();
        Self(Arc::new(ActivityState { now, is_expired, has_unsent, connection, body, drain }))
    }

    /// Returns `true` while bytes of an answer may still have to be handed to the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        self.0.has_unsent.load(Ordering::Relaxed)
    }

    pub(super) fn note_unsent(&self, has_unsent: bool) {
        self.0.has_unsent.store(has_unsent, Ordering::Relaxed);
    }

    /// Records whether the connection waits for the app, for HTTP/1.1.
    pub(super) fn set_waits_for_app(&self, waits: bool) {
        self.0.connection.waiting_for_app.store(u32::from(waits), Ordering::Relaxed);
    }

    /// Counts one request of HTTP/2 as one that the app works on, until the returned value is dropped.
    pub(super) fn app_works(&self) -> AppAtWork {
        self.0.connection.waiting_for_app.fetch_add(1, Ordering::Relaxed);
        AppAtWork(self.clone())
    }

    /// Records that the app has the body of the current request.
    pub(super) fn body_lent(&self) {
        *self.0.body.lock() = BodyState::WithApp;
    }

    /// Records the state in which the app has left the body. Without effect once the request is answered.
    pub(super) fn body_returned(&self, state: BodyState) {
        let mut body = self.0.body.lock();
        if matches!(*body, BodyState::WithApp) {
            *body = state;
        }
    }

    pub(super) fn now(&self) -> Snapshot {
        *self.0.now.lock()
    }

    /// Makes the next answer the last one, because the connection has reached its maximum age.
    pub(super) fn expire(&self) {
        self.0.is_expired.store(true, Ordering::Relaxed);
    }

    pub(super) fn byte_received(&self) {
        let mut now = self.0.now.lock();
        if now.phase == ConnectionPhase::Idle {
            now.phase = ConnectionPhase::Head;
        }
    }

    /// Forgets that bytes were received, for a connection of HTTP/2, whose requests do not begin here.
    pub(super) fn forget_bytes(&self) {
        self.0.now.lock().phase = ConnectionPhase::Idle;
    }

    /// Begins a request, whose head is complete. It lasts until the returned value is dropped.
    pub(super) fn request_received(&self) -> RequestInFlight {
        let began = {
            let mut now = self.0.now.lock();
            *now = Snapshot { phase: ConnectionPhase::Request, requests: now.requests + 1 };
            *now
        };
        self.set_waits_for_app(true);
        RequestInFlight { activity: self.clone(), began }
    }
}

/// A request of HTTP/2 that the app works on, until it is dropped.
pub(super) struct AppAtWork(Activity);

impl Drop for AppAtWork {
    fn drop(&mut self) {
        self.0.0.connection.waiting_for_app.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request in flight, until it is dropped.
pub(super) struct RequestInFlight {
    activity: Activity,
    began: Snapshot,
}

impl RequestInFlight {
    /// Records that the app has answered. Returns the state of the request's body.
    pub(super) fn answered(&self) -> BodyState {
        self.activity.set_waits_for_app(false);
        std::mem::take(&mut *self.activity.0.body.lock())
    }

    /// Returns `true` if the answer has to be the last one of the connection.
    pub(super) fn is_last(&self) -> bool {
        let shared = &self.activity.0;
        shared.is_expired.load(Ordering::Relaxed) || *shared.drain.borrow() != DrainState::Serving
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let mut now = self.activity.0.now.lock();
        if *now == self.began {
            now.phase = ConnectionPhase::Idle;
        }
    }
}

/// Part of a response of HTTP/2, which counts as unread until it is handed to the kernel.
struct UnreadPart {
    part: Bytes,
    _unread: Arc<UnreadBytes>,
}

impl AsRef<[u8]> for UnreadPart {
    fn as_ref(&self) -> &[u8] {
        &self.part
    }
}

/// Body of an answer, whose end is the end of the request.
pub(super) struct TrackedBody {
    body: AppBody,
    _in_flight: Option<RequestInFlight>,
    /// `None` in HTTP/1.1, where what waits is seen at the stream.
    unread: Option<Arc<UnreadBytes>>,
}

impl TrackedBody {
    /// Returns the body of a response of HTTP/1.1.
    pub(super) fn new(body: AppBody, in_flight: Option<RequestInFlight>) -> Self {
        Self { body, _in_flight: in_flight, unread: None }
    }

    /// Returns the body of a response of HTTP/2, which waits for its client's window.
    pub(super) fn of_stream(body: AppBody, activity: &Activity) -> Self {
        let bytes = body.size_hint().exact().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let unread =
            (!body.is_end_stream()).then(|| UnreadBytes::new(&activity.0.connection, bytes + STREAM_BYTES));
        Self { body, _in_flight: None, unread: unread.map(Arc::new) }
    }
}

/// Bytes that an unread response of HTTP/2 takes besides its body.
const STREAM_BYTES: usize = 4 * 1024;

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(unread) = &self.unread else { return Poll::Ready(frame) };
        let counted = |part| Bytes::from_owner(UnreadPart { part, _unread: Arc::clone(unread) });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Steps of a graceful shutdown, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainState {
    /// Connections stay open for further requests.
    Serving,
    /// Connections are still accepted, but each announces its close.
    Draining,
    /// The only connections still accepted are those that clients have opened before.
    Closing {
        /// Time at which the drain began.
        draining_since: Instant,
    },
}

/// Observer of the server's step.
pub(super) type DrainWatch = watch::Receiver<DrainState>;

/// Waits until the closing server closes a connection that has been idle since `idle_since`.
pub(super) async fn idle_connections_expired(
    mut drain: DrainWatch,
    idle_since: Instant,
    idle_grace: Duration,
) {
    let is_closing = |state: &DrainState| matches!(state, DrainState::Closing { .. });
    let state = drain.wait_for(is_closing).await.map(|state| *state);
    if let Ok(DrainState::Closing { draining_since }) = state {
        return sleep_until(idle_since.max(draining_since) + idle_grace).await;
    }
    pending::<()>().await; // the server is gone, and its connections are about to be
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_slots::ConnectionSlots;

    fn activity() -> Activity {
        let slot = ConnectionSlots::new(1, 1).take(None, [192, 0, 2, 1].into()).unwrap();
        Activity::new(watch::channel(DrainState::Serving).1, Arc::clone(&slot.connection))
    }

    #[test]
    fn a_request_begins_with_its_first_byte_and_ends_with_its_answer() {
        let activity = activity();
        assert_eq!(activity.now().requests, 0);
        assert_eq!(activity.now().phase, ConnectionPhase::Idle);
        activity.byte_received();
        assert_eq!(activity.now().phase, ConnectionPhase::Head);
        let request = activity.request_received();
        activity.byte_received(); // of its body
        assert_eq!(activity.now().phase, ConnectionPhase::Request);
        drop(request);
        assert_eq!(activity.now().phase, ConnectionPhase::Idle);
        assert_eq!(activity.now().requests, 1);
    }

    #[test]
    fn two_idle_times_are_distinguished() {
        let activity = activity();
        drop(activity.request_received());
        let first = activity.now();
        drop(activity.request_received());
        assert_ne!(activity.now(), first);
        assert_eq!(activity.now().phase, first.phase);
    }
}
