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
        // Classic BPF. The data is a TCP segment, beginning with its header (RFC 9293 §3.1).
        let drop_syn = [
            SockFilter::new(0x30, 0, 0, 13),       // load byte 13, the flags
            SockFilter::new(0x54, 0, 0, 0x12),     // keep SYN and ACK
            SockFilter::new(0x15, 0, 1, 0x02),     // unless it is SYN alone, skip one instruction
            SockFilter::new(0x06, 0, 0, 0),        // drop it
            SockFilter::new(0x06, 0, 0, u32::MAX), // take all of it
        ];
        if let Err(error) = SockRef::from(&self.listener).attach_filter(&drop_syn) {
            tracing::debug!(%error, "could not refuse new connections before the listener closes");
        }
    }
}
