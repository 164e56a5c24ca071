//! Whose turn it is on a connection of HTTP/1.1.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection of HTTP/1.1 waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of a request.
    Silent,
    /// The rest of a request's head.
    Head,
    /// The request's body, or its answer.
    Request,
}

/// What a connection of HTTP/1.1 waits for, and how many requests it has had. hyper does not tell: so the bytes that
/// come, the requests and the ends of their answers are noted here. Clones are the same connection's, and all of them
/// are used by its one task.
#[derive(Clone, Debug)]
pub(super) struct Turn(Arc<Notes>);

#[derive(Debug)]
struct Notes {
    moment: AtomicU64,
    is_of_age: AtomicBool,
    /// The server's.
    is_draining: Arc<AtomicBool>,
}

/// A moment of a connection: another one if anything was noted since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(u64);

const PHASES: u64 = 0b11;
const HEAD: u64 = 1;
const REQUEST: u64 = 2;
const NEXT_REQUEST: u64 = PHASES + 1;

impl Moment {
    pub(super) fn phase(self) -> Phase {
        match self.0 & PHASES {
            HEAD => Phase::Head,
            REQUEST => Phase::Request,
            _ => Phase::Silent,
        }
    }

    pub(super) fn is_before_the_first_request(self) -> bool {
        self.0 < NEXT_REQUEST
    }
}

impl Turn {
    /// Of a new connection, to a server that sets this when no connection is to be kept any more.
    pub(super) fn new(is_draining: Arc<AtomicBool>) -> Self {
        let notes = Notes { moment: AtomicU64::new(0), is_of_age: AtomicBool::new(false), is_draining };
        Self(Arc::new(notes))
    }

    pub(super) fn now(&self) -> Moment {
        Moment(self.0.moment.load(Ordering::Relaxed))
    }

    fn note(&self, Moment(moment): Moment) {
        self.0.moment.store(moment, Ordering::Relaxed);
    }

    /// The next answer is to be the last.
    pub(super) fn come_of_age(&self) {
        self.0.is_of_age.store(true, Ordering::Relaxed);
    }

    fn byte_came(&self) {
        let Moment(now) = self.now();
        if now & PHASES == 0 {
            self.note(Moment(now | HEAD));
        }
    }

    /// A request's head is whole. The request lasts until what is given back is dropped.
    pub(super) fn request_came(&self) -> UnderWay {
        let began = Moment((self.now().0 & !PHASES) + NEXT_REQUEST + REQUEST);
        self.note(began);
        UnderWay { turn: self.clone(), began }
    }
}

/// A request that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    turn: Turn,
    began: Moment,
}

impl UnderWay {
    /// Whether its answer is to be the last of the connection.
    pub(super) fn is_the_last(&self) -> bool {
        let notes = &self.turn.0;
        notes.is_of_age.load(Ordering::Relaxed) || notes.is_draining.load(Ordering::Relaxed)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.turn.now() == self.began {
            self.turn.note(Moment(self.began.0 & !PHASES));
        }
    }
}

/// An answer's body; with its end, the request is over.
#[derive(Debug)]
pub(super) struct Answer<B> {
    body: B,
    _under_way: Option<UnderWay>,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, under_way: Option<UnderWay>) -> Self {
        Self { body, _under_way: under_way }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that notes the bytes which come.
#[derive(Debug)]
pub(super) struct Noting<I> {
    stream: I,
    turn: Turn,
}

impl<I> Noting<I> {
    pub(super) fn new(stream: I, turn: Turn) -> Self {
        Self { stream, turn }
    }

    pub(super) fn into_inner(self) -> I {
        self.stream
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Noting<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.turn.byte_came();
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Noting<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_begins_with_its_first_byte_and_ends_with_its_answer() {
        let turn = Turn::new(Arc::default());
        assert!(turn.now().is_before_the_first_request());
        assert_eq!(turn.now().phase(), Phase::Silent);
        turn.byte_came();
        assert_eq!(turn.now().phase(), Phase::Head);
        let request = turn.request_came();
        turn.byte_came(); // of its body
        assert_eq!(turn.now().phase(), Phase::Request);
        drop(request);
        assert_eq!(turn.now().phase(), Phase::Silent);
        assert!(!turn.now().is_before_the_first_request());
    }

    #[test]
    fn two_idle_times_are_two_moments() {
        let turn = Turn::new(Arc::default());
        drop(turn.request_came());
        let first = turn.now();
        drop(turn.request_came());
        assert_ne!(turn.now(), first);
        assert_eq!(turn.now().phase(), first.phase());
    }
}
