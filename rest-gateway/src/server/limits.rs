//! The bounds of a server.

use std::time::Duration;

/// What a client may take, by default and at most.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// How long a request's head of HTTP/1.1 may take to arrive: from its first byte on, and that of a
    /// connection's first request from when the connection is open. Default 9 s.
    pub header_read_timeout: Duration,
    /// How long a TLS handshake may take. Default 5 s.
    pub tls_handshake: Duration,
    /// Header fields in a head of HTTP/1.1; with more, the answer is a bare 431. Default 256.
    pub max_headers: usize,
    /// Bytes of the header fields of HTTP/2, as RFC 9113 §6.5.2 counts them; with more, the answer is a bare
    /// 431. Default 64 KiB.
    pub max_header_list: u32,
    /// Requests at once on one connection of HTTP/2. Default 100.
    pub max_streams: u32,
    /// Bytes of a head of HTTP/1.1, and of anything else that is buffered; with a larger head, the answer is
    /// a bare 431. At least 8192. Default 64 KiB.
    pub max_buf_size: usize,
    /// How long a client may take in nothing of an answer. Default 10 s.
    pub write_stall: Duration,
    /// On a connection of this age the next answer is the last, so that clients spread over new instances.
    /// Default 10 min, to which each connection adds up to a tenth of its own.
    pub max_connection_age: Duration,
    /// How long a connection may be without a request before it is closed. Longer than proxies keep theirs,
    /// or else they send requests on a connection that is just being closed. Default 75 s.
    pub idle: Duration,
    /// How long a connection of HTTP/1.1 is without a request before it gives back the memory of its buffers,
    /// until bytes of the next one come. Default 250 ms: clients that send on and on never pay for it.
    pub rest_after: Duration,
    /// How long a request of HTTP/2 may take, with its answer taken in by the client. Default 1 min.
    pub stream_deadline: Duration,
    /// How long the requests under way may take when a connection is of age or idle. Default 30 s.
    pub connection_age_grace: Duration,
    /// Bytes of an unread body that are discarded so that the connection can be kept, and at its end so that
    /// the client sees the answer and not a reset. Default 64 KiB.
    pub max_discarded: usize,
    /// How long that may take. Default 1 s.
    pub discard_timeout: Duration,
    /// At shutdown, how long connections are still accepted that clients had begun to open. Default 250 ms.
    pub accept_grace: Duration,
    /// How long a connection without a request may stay open at shutdown, from the beginning of the drain or
    /// from its last answer on: its client may be sending just now. Default 1 s.
    pub idle_grace: Duration,
    /// How long connections may take to close at shutdown. Default 20 s.
    pub drain_deadline: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(9),
            tls_handshake: Duration::from_secs(5),
            max_headers: 256,
            max_header_list: 64 * 1024,
            max_streams: 100,
            max_buf_size: 64 * 1024,
            write_stall: Duration::from_secs(10),
            max_connection_age: Duration::from_mins(10),
            idle: Duration::from_secs(75),
            rest_after: Duration::from_millis(250),
            stream_deadline: Duration::from_mins(1),
            connection_age_grace: Duration::from_secs(30),
            max_discarded: 64 * 1024,
            discard_timeout: Duration::from_secs(1),
            accept_grace: Duration::from_millis(250),
            idle_grace: Duration::from_secs(1),
            drain_deadline: Duration::from_secs(20),
        }
    }
}
