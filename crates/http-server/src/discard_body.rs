//! Request bodies that the app does not read to their end.
//!
//! HTTP/1.1 can only keep the connection if the body is read, and hyper does not announce that it closes one
//! with an unread body, so the client's next request is lost. So an unread body is discarded before the
//! answer is sent, or the answer has `Connection: close`.
//!
//! HTTP/2 resets the stream of a body that is dropped before its end, and clients that are still sending then
//! report the reset instead of the answer. So it is discarded after the answer.
//!
//! A socket that is closed with unread bytes resets the connection, and the client's kernel then throws away
//! an answer that the client has not read yet (RFC 9112 §9.6). So an HTTP/1.1 connection is closed in two
//! steps, with a pause for the bytes that are still in flight.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{BoxError, response::Response};
use bytes::Bytes;
use http::{HeaderValue, header::CONNECTION};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    runtime::Handle,
    time::{sleep, timeout},
};

use super::{
    Connections, ServerLimits,
    activity::{Activity, BodyState},
};

/// Body of a request as the app reads it.
pub(super) struct RequestBody {
    /// `None` after its end or an error.
    body: Option<Incoming>,
    /// `true` once the app has begun to read. What it then leaves unread is too large, too late or broken.
    is_begun: bool,
    owner: BodyOwner,
}

/// Owner of a body, which discards the part that the app leaves unread.
pub(super) enum BodyOwner {
    /// HTTP/1.1 connection, which discards the body before it sends the answer.
    Connection(Activity),
    /// HTTP/2 stream, whose server discards the body in a task after the answer.
    Stream(Arc<Connections>),
}

impl RequestBody {
    /// Returns the body of an HTTP/1.1 request. `is_asked_for` is `true` if the client waits for `100
    /// Continue` before it sends the body, in which case reading the body would send that.
    pub(super) fn of_connection(body: Incoming, is_asked_for: bool, activity: Activity) -> Self {
        activity.body_lent();
        Self { body: Some(body), is_begun: is_asked_for, owner: BodyOwner::Connection(activity) }
    }

    pub(super) fn of_stream(body: Incoming, server: Arc<Connections>) -> Self {
        Self { body: Some(body), is_begun: false, owner: BodyOwner::Stream(server) }
    }

    fn end(&mut self, state: BodyState) {
        self.body = None;
        if let BodyOwner::Connection(activity) = &self.owner {
            activity.body_returned(state);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.is_begun = true;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context).map_err(BoxError::from);
        let is_whole = body.is_end_stream();
        let frame = match (frame, &self.owner) {
            // hyper takes the body of a stream that was reset with NO_ERROR for complete.
            (Poll::Ready(None), BodyOwner::Stream(_)) if !is_whole => {
                Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())))
            }
            (frame, _) => frame,
        };
        match &frame {
            Poll::Ready(None) => self.end(BodyState::Done),
            Poll::Ready(Some(Err(_))) => self.end(BodyState::Broken),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        if let BodyOwner::Connection(activity) = &self.owner {
            activity.set_waits_for_app(frame.is_ready());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let is_read = body.is_end_stream();
        match &self.owner {
            BodyOwner::Connection(activity) => activity.body_returned(match (is_read, self.is_begun) {
                (true, _) => BodyState::Done,
                (false, true) => BodyState::Broken,
                (false, false) => BodyState::Unread(body),
            }),
            BodyOwner::Stream(server) if !is_read => discard_in_task(server, body),
            BodyOwner::Stream(_) => {}
        }
    }
}

/// Returns the answer once the body is discarded, or with `Connection: close` if the body is too large, too
/// late or broken.
pub(super) async fn after_discarding(
    mut answer: Response,
    body: Incoming,
    server: Arc<Connections>,
) -> Response {
    let limits = &server.limits;
    let mut rest = Some(body).filter(|body| body.size_hint().lower() <= limits.max_discarded as u64);
    let is_discarded = match &mut rest {
        Some(body) => timeout(limits.discard_timeout, discard(body, limits.max_discarded)).await,
        None => Ok(false),
    };
    if is_discarded != Ok(true) {
        close_after(&mut answer);
    }
    answer
}

/// Makes the answer the last one of its connection, and announces it.
pub(super) fn close_after(answer: &mut Response) {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

/// Reads the body to its end. Returns `false` if it breaks off or has more than `max` bytes. A chunk counts
/// as 64 bytes at least: 64 KiB in chunks of one byte would take 19 ms.
async fn discard(body: &mut Incoming, max: usize) -> bool {
    let mut taken: usize = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        taken = taken.saturating_add(frame.data_ref().map_or(0, Bytes::len).max(64));
        if taken > max {
            return false;
        }
    }
    true
}

/// Closes the sending half of an HTTP/1.1 connection, and discards the bytes that the client still sends:
/// many clients read an answer only once they have sent the whole request.
pub(super) async fn lingering_close(mut stream: impl AsyncRead + AsyncWrite + Unpin, limits: &ServerLimits) {
    let close = async {
        timeout(limits.discard_timeout, stream.shutdown()).await??;
        let mut rest = vec![0; 16 * 1024]; // on the heap, so that open connections do not contain it
        let mut taken: usize = 0;
        while taken < limits.max_lingered {
            match timeout(limits.discard_timeout, stream.read(&mut rest)).await?? {
                0 => break,
                len => taken = taken.saturating_add(len),
            }
        }
        io::Result::Ok(())
    };
    let _ = timeout(limits.linger_timeout, close).await; // however it ends, the connection is closed now
}

/// Discards the rest of a body of HTTP/2 in a task, unless there is no place for it.
fn discard_in_task(server: &Arc<Connections>, mut body: Incoming) {
    // Without a runtime the process is ending.
    let place = Arc::clone(&server.discards).try_acquire_owned();
    let (Ok(place), Ok(runtime)) = (place, Handle::try_current()) else { return };
    let server = Arc::clone(server);
    runtime.spawn(async move {
        let limits = &server.limits;
        let reading = async {
            if !discard(&mut body, limits.max_discarded).await {
                // No more bytes are read, but the client has time to see the answer.
                sleep(limits.discard_timeout).await;
            }
        };
        let _ = timeout(limits.discard_timeout, reading).await; // the body is dropped now
        drop(place);
    });
}
