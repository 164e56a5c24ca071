//! Faults that a proxy injects into its connections.

use std::time::Duration;

/// Fault of a [`Proxy`](super::Proxy). It acts on open connections as well as on new ones, as soon as it is
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: bytes pass as they arrive.
    None,
    /// Each piece of a response arrives `by` later, plus or minus the jitter. Pieces keep their order, and
    /// one does not wait for the delay of another: this is latency, not a limit of throughput. The jitter is
    /// evenly spread and equal in every run.
    Delay {
        /// Mean delay.
        by: Duration,
        /// Maximum time by which a piece is earlier or later than that.
        jitter: Duration,
    },
    /// Connections are accepted, but no bytes pass in either direction. Bytes that were sent meanwhile are
    /// delivered once the fault is over, as after a network partition.
    Blackhole,
    /// The port is closed, and all connections are reset: the process is dead.
    Refuse,
    /// New connections are accepted and reset at once; open ones remain.
    ResetOnAccept,
    /// New connections are accepted, and closed in order after the first request; open ones remain. Load
    /// balancers do so while no server is behind them.
    CloseOnAccept,
    /// The first connection that has carried this many more bytes of responses is reset; with 0, in place of
    /// the next. Then the fault is over, so that a retry succeeds.
    CutOnce {
        /// Bytes on each connection since the fault was set, or since its start if that is later.
        response_bytes: u64,
    },
}

impl Fault {
    /// Returns a steady delay in milliseconds.
    pub const fn delay_ms(by: u64) -> Self {
        Self::Delay { by: Duration::from_millis(by), jitter: Duration::ZERO }
    }
}
