//! Takes in the bodies of HTTP/2 that nobody read, so that the client sees the answer and not a reset.
//!
//! A request whose body is dropped before its end is reset right after its answer, and clients that are still
//! sending then report the reset in place of the answer. HTTP/1.1 does the same with its connection: see
//! `lingering_close`.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::limits::ServerLimits;

/// Unread bodies at once, over all connections of a port. Of more, the rest is refused at once. Each holds
/// what its client may send before it is read, 64 KiB, and a connection no more than 1 MiB altogether.
const AT_ONCE: usize = 1_024;

/// What becomes of unread bodies. Clones share the bound.
#[derive(Clone, Debug)]
pub(super) struct BodyDiscarder {
    slots: Arc<Semaphore>,
    max_bytes: usize,
    max_time: Duration,
}

impl BodyDiscarder {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            max_bytes: limits.linger_bytes,
            max_time: limits.linger,
        }
    }

    fn discard(&self, mut body: Incoming) {
        // Without a runtime the process is ending.
        let (Ok(slot), Ok(runtime)) = (Arc::clone(&self.slots).try_acquire_owned(), Handle::try_current())
        else {
            return;
        };
        let (max_bytes, max_time) = (self.max_bytes, self.max_time);
        runtime.spawn(async move {
            let reading = async {
                let mut taken: usize = 0;
                while let Some(Ok(frame)) = body.frame().await {
                    taken = taken.saturating_add(frame.data_ref().map_or(0, Bytes::len));
                    if taken >= max_bytes && !body.is_end_stream() {
                        // Nothing more is taken, but the client has time to see the answer.
                        sleep(max_time).await;
                    }
                }
            };
            let _ = timeout(max_time, reading).await; // however it ends, the body is dropped now
            drop(slot);
        });
    }
}

/// A body that is taken in if it is dropped before its end.
#[derive(Debug)]
pub(super) struct DiscardOnDrop {
    /// Until its end, or an error.
    body: Option<Incoming>,
    discarder: BodyDiscarder,
}

impl DiscardOnDrop {
    pub(super) fn new(body: Incoming, discarder: BodyDiscarder) -> Self {
        Self { body: Some(body), discarder }
    }
}

impl Body for DiscardOnDrop {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
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

impl Drop for DiscardOnDrop {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            self.discarder.discard(body);
        }
    }
}
