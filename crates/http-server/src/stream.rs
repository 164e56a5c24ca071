//! Stream of a connection, which tells the connection's activity of its bytes.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{activity::Activity, connection_slots::UnreadBytes};

/// Stream that records in the activity when bytes are received, and when all are sent.
pub(super) struct ObservedStream<I> {
    pub(super) stream: I,
    activity: Activity,
    /// Bytes that were received and not read yet.
    pub(super) unread: Bytes,
    /// Bytes that the client does not take.
    unsent: Option<UnreadBytes>,
    /// Maximum number of bytes that the stream itself holds meanwhile.
    buffer: usize,
}

impl<I> ObservedStream<I> {
    pub(super) fn new(stream: I, activity: Activity, buffer: usize) -> Self {
        Self { stream, activity, unread: Bytes::new(), unsent: None, buffer }
    }

    /// Counts the bytes that are left while the client takes none.
    fn note_written<T>(&mut self, written: &Poll<io::Result<T>>, left: usize) {
        if written.is_ready() {
            self.unsent = None;
            return;
        }
        let bytes = left + self.buffer;
        if self.unsent.as_ref().is_none_or(|unsent| unsent.bytes != bytes) {
            self.unsent = Some(UnreadBytes::new(&self.activity.0.connection, bytes));
        }
    }
}

impl<I: AsyncRead + Unpin> ObservedStream<I> {
    /// Waits for bytes to read. Returns `false` if the peer has closed its half.
    pub(super) async fn has_more(&mut self) -> io::Result<bool> {
        if self.unread.is_empty() {
            self.unread = poll_fn(|context| {
                let mut first = [0; 64];
                let mut first = ReadBuf::new(&mut first);
                ready!(Pin::new(&mut self.stream).poll_read(context, &mut first))?;
                Poll::Ready(io::Result::Ok(Bytes::copy_from_slice(first.filled())))
            })
            .await?;
        }
        Ok(!self.unread.is_empty())
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for ObservedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let len = buffer.remaining().min(self.unread.len());
            buffer.put_slice(&self.unread.split_to(len));
            self.activity.byte_received();
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.byte_received();
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for ObservedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.activity.note_unsent(true);
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(&written, bytes.len());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.activity.note_unsent(true);
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_written(&written, slices.iter().map(|slice| slice.len()).sum());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when it has written everything.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.note_written(&flushed, 0);
        ready!(flushed)?;
        self.activity.note_unsent(false);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::watch,
    };

    use super::*;
    use crate::{activity::DrainState, connection_slots::ConnectionSlots};

    #[tokio::test]
    async fn what_a_client_does_not_take_is_unread_until_it_does() {
        let slots = ConnectionSlots::new(1, 1);
        let slot = slots.take(None, [192, 0, 2, 1].into()).unwrap();
        let (_, drain) = watch::channel(DrainState::Serving);
        let activity = Activity::new(drain, Arc::clone(&slot.connection));
        let (client, server) = tokio::io::duplex(8);
        let (mut client, mut server) = (client, ObservedStream::new(server, activity, 5));
        let write = tokio::spawn(async move { server.write_all(&[b'x'; 20]).await });
        while slots.unread() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(slots.unread(), 12 + 5, "and what the stream itself may hold");
        client.read_exact(&mut [0; 20]).await.unwrap();
        write.await.unwrap().unwrap();
        assert_eq!(slots.unread(), 0);
    }
}
