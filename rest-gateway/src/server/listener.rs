//! Listening socket, which is closed without losing connections.

use std::{io, net::SocketAddr};

use socket2::{SockFilter, SockRef};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Duration, Instant, sleep},
};

/// Socket that accepts connections.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    last_logged: Option<Instant>,
}

impl Listener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, last_logged: None }
    }

    /// Waits for the next connection. Cancel-safe: none is lost.
    pub(super) async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    self.log_failure(&error);
                    sleep(Duration::from_millis(50)).await; // file descriptors take time to return
                }
            }
        }
    }

    /// Logs the failure, unless another one was logged in the last 10 s.
    fn log_failure(&mut self, error: &io::Error) {
        if self.last_logged.is_none_or(|last| last.elapsed() >= Duration::from_secs(10)) {
            tracing::warn!(%error, "could not accept a connection");
            self.last_logged = Some(Instant::now());
        }
    }

    /// Refuses new connections. Connections that clients have begun to open still arrive.
    ///
    /// Closing the socket resets the connections that the kernel has opened and the server has not accepted
    /// yet, although their clients may have sent requests. So the kernel drops the segments that would begin
    /// a new connection (SYN without ACK), and the rest of the queue can be emptied. A client whose segment
    /// was dropped repeats it a second later, and is refused then.
    pub(super) fn refuse_new(&self) {
        /// Instructions of classic BPF. The data is a TCP segment, beginning with its header.
        const LOAD_BYTE: u16 = 0x30;
        const AND: u16 = 0x54;
        const JUMP_IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        /// Offset of the flags of a segment (RFC 9293 §3.1), and two of them.
        const FLAGS: u32 = 13;
        const SYN: u32 = 0x02;
        const ACK: u32 = 0x10;
        let drop_syn = [
            SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
            SockFilter::new(AND, 0, 0, SYN | ACK),
            SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
            SockFilter::new(RETURN, 0, 0, 0),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
        ];
        if let Err(error) = SockRef::from(&self.listener).attach_filter(&drop_syn) {
            tracing::debug!(%error, "could not refuse new connections before the listener closes");
        }
    }
}
