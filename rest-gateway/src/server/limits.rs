//! Bounds of a connection.

use std::time::Duration;

/// Bounds of a connection, of its requests and of its end.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Time for a request's head of HTTP/1.1 to arrive, measured from its first byte. For a connection's
    /// first request it is measured from the opening of the connection. Default 9 s.
    pub header_read_timeout: Duration,
    /// Time for a TLS handshake. Default 5 s.
    pub tls_handshake: Duration,
    /// Maximum number of header fields in a head of HTTP/1.1; with more, the answer is 431 without an Error
    /// body. Default 256.
    pub max_headers: usize,
    /// Maximum length of the header fields of HTTP/2 in bytes, as RFC 9113 §6.5.2 counts them; with more, the
    /// answer is 431 without an Error body. Default 64 KiB.
    pub max_header_list: u32,
    /// Maximum number of concurrent requests on one HTTP/2 connection. Default 100.
    pub max_streams: u32,
    /// Maximum length in bytes of a head of HTTP/1.1, and of anything else that is buffered; with a larger
    /// head, the answer is 431 without an Error body. At least 8192. Default 64 KiB.
    pub max_buf_size: usize,
    /// Maximum time in which a client reads nothing of an answer. Default 10 s.
    pub write_stall: Duration,
    /// Age of a connection whose next answer is the last, so that clients spread over new instances. Default
    /// 10 min, to which each connection adds up to a tenth.
    pub max_connection_age: Duration,
    /// Maximum time of a connection without a request. It is longer than the idle timeout of proxies, because
    /// otherwise they send requests on a connection that is just being closed. Default 75 s.
    pub idle: Duration,
    /// Time without a request after which an HTTP/1.1 connection releases the memory of its buffers. Default
    /// 250 ms, so that the connections of busy clients keep their buffers.
    pub rest_after: Duration,
    /// Maximum time of an HTTP/2 request, until the client has read its answer. Default 1 min.
    pub stream_deadline: Duration,
    /// Time for the requests in flight when a connection ends because of its age or because it is idle.
    /// Default 30 s.
    pub connection_age_grace: Duration,
    /// Maximum number of bytes of an unread body that are discarded so that the connection can be kept, and
    /// at its end so that the client sees the answer and not a reset. Default 64 KiB.
    pub max_discarded: usize,
    /// Time for discarding it. Default 1 s.
    pub discard_timeout: Duration,
    /// At shutdown, time without a new connection after which the listener closes, because clients have begun
    /// to open some before. Default 250 ms.
    pub accept_grace: Duration,
    /// At shutdown, time for which a connection without a request stays open, measured from the beginning of
    /// the drain or from its last answer: its client may be sending just now. Default 1 s.
    pub idle_grace: Duration,
    /// At shutdown, time for all connections to close. Default 20 s.
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
