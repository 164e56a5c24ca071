//! Closes a connection so that the client sees the answer.
//!
//! A socket that is closed with unread bytes resets the connection, and the client's kernel then throws away
//! an answer that the client has not read yet (RFC 9112 §9.6). So: close the sending half, take in what is
//! still on its way, then close.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// Takes in at most `max_bytes`, for at most `max_time`, or until the client closes its half.
pub(super) async fn lingering_close(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    max_bytes: usize,
    max_time: Duration,
) {
    let close = async {
        stream.shutdown().await?;
        let mut rest = vec![0; 4096]; // on the heap, so that open connections do not carry it along
        let mut taken: usize = 0;
        while taken < max_bytes {
            match stream.read(&mut rest).await? {
                0 => break,
                len => taken = taken.saturating_add(len),
            }
        }
        std::io::Result::Ok(())
    };
    // However it ends, the connection is closed now, and nobody is left to tell.
    let _ = timeout(max_time, close).await;
}
