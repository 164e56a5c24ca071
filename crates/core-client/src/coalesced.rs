//! Coalesces frames that become ready one after the other into one write.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};

/// Connection that begins each write one scheduler turn later than requested.
///
/// HTTP/2 opens a stream, and flushes its HEADERS, before the task that sends the DATA can run. That makes
/// two writes for one call, and wakes the core twice. The extra turn lets that task run first, and those of
/// other calls.
pub(super) struct CoalescedWrites<T> {
    socket: T,
    /// `true` if the pending write has waited for its turn.
    has_waited: bool,
}

impl<T> CoalescedWrites<T> {
    pub(super) fn new(socket: T) -> Self {
        Self { socket, has_waited: false }
    }

    fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.has_waited {
            return Poll::Ready(());
        }
        self.has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T: Read + Unpin> Read for CoalescedWrites<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for CoalescedWrites<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(context));
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(context));
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.has_waited = false; // all is written: the next write waits again
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use futures_util::poll;
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex},
        time::sleep,
    };

    use super::*;

    #[tokio::test]
    async fn each_flush_yields_once_before_its_first_write() {
        let (socket, mut peer) = duplex(1_024);
        let mut connection = TokioIo::new(CoalescedWrites::new(TokioIo::new(socket)));
        for _ in 0..2 {
            let mut write = pin!(connection.write_all(b"HEADERS"));
            assert!(poll!(write.as_mut()).is_pending(), "others have their turn first");
            assert!(poll!(write).is_ready());
            assert!(poll!(pin!(connection.write_all(b"DATA"))).is_ready(), "it has waited");
            connection.flush().await.unwrap();
        }
        drop(connection);
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "HEADERSDATAHEADERSDATA");
    }

    #[tokio::test]
    async fn several_slices_are_one_write() {
        let (socket, mut peer) = duplex(1_024);
        let mut connection = TokioIo::new(CoalescedWrites::new(TokioIo::new(socket)));
        let slices = ["HEADERS", "DATA"].map(|slice| io::IoSlice::new(slice.as_bytes()));
        assert!(connection.is_write_vectored());
        assert_eq!(connection.write_vectored(&slices).await.unwrap(), 11);
        connection.shutdown().await.unwrap();
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "HEADERSDATA");
    }

    #[tokio::test]
    async fn a_waiting_flush_is_woken() {
        let (socket, _peer) = duplex(1_024);
        let mut connection = TokioIo::new(CoalescedWrites::new(TokioIo::new(socket)));
        tokio::select! {
            biased; // otherwise the write would be polled once more at the timeout
            () = sleep(Duration::from_secs(10)) => panic!("it is not woken"),
            written = connection.write_all(b"alone") => written.unwrap(),
        }
    }
}
