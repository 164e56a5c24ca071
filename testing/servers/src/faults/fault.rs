//! What a proxy does to the connections through it.

use std::time::Duration;

/// What a [`Proxy`](super::Proxy) does. A fault acts on open connections as well as on new ones, from the
/// moment it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: bytes pass as they come.
    None,
    /// Each piece of a response arrives `by` later, give or take the jitter. Pieces keep their order, and one
    /// does not wait for the delay of another: it is latency, not a narrow pipe. The jitter is evenly spread
    /// and the same in every run.
    Delay {
        /// The mean delay.
        by: Duration,
        /// The most by which a piece is earlier or later than that.
        jitter: Duration,
    },
    /// Each connection carries at most so many bytes of responses per second.
    Throttle {
        /// At least 1.
        bytes_per_sec: u32,
    },
    /// Connections are accepted and nothing moves on them, in either direction. What was sent meanwhile is
    /// delivered late, once the fault is over, as after a network partition.
    Blackhole,
    /// Nobody listens, and all connections are reset: the process is dead.
    Refuse,
    /// New connections are accepted and reset at once; open ones live on.
    ResetOnAccept,
    /// New connections are accepted, and closed in order after the first request; open ones live on. Load
    /// balancers do so while no server is behind them.
    CloseOnAccept,
    /// Each connection is reset when so many more bytes of responses have passed; with 0, in place of the
    /// next.
    Cut {
        /// Counted on each connection from the setting of the fault, or from its start if that is later.
        response_bytes: u64,
    },
    /// The first connection that gets so far is reset; then the fault is over, so that a retry succeeds.
    CutOnce {
        /// Counted as for [`Fault::Cut`].
        response_bytes: u64,
    },
    /// Clients read the end of the response stream, while their requests still arrive at the target.
    HalfClose,
}

impl Fault {
    /// A steady delay of so many milliseconds.
    #[must_use]
    pub const fn delay_ms(by: u64) -> Self {
        Self::Delay { by: Duration::from_millis(by), jitter: Duration::ZERO }
    }
}
