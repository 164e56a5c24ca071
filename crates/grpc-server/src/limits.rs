//! Limits that no setting changes.

use std::time::Duration;

/// Maximum times, sizes and numbers. Sizes are in bytes.
#[derive(Debug)]
pub struct Limits {
    /// Maximum time that a tool may take between two messages of a stream. Methods have their own timeouts.
    pub call_timeout: Duration,
    /// Size of a request of a tool, which contains a name.
    pub tool_message: usize,

    /// Calls in flight that read, and as many that write: calls that wait for a lock of the database take no
    /// permit of a read. Calls beyond a limit are refused at once.
    pub calls: usize,
    /// Calls in flight of other processes of the service.
    pub internal_calls: usize,
    /// Calls in flight of operators.
    pub operator_calls: usize,
    /// Open streams that write, most of which wait for their caller. Each holds one message at a time.
    pub imports: usize,

    /// Messages of unanswered calls that read or write, alone or in batches. Those of streams that write are
    /// limited by the number of these.
    pub data_in_flight: usize,
    /// Messages of unanswered calls of other processes of the service and of operators.
    pub internal_in_flight: usize,
    /// Messages of unanswered calls of tools.
    pub tools_in_flight: usize,
    /// Divisor of the three above for one connection, so that the rest is left to others.
    pub connection_share: usize,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

impl Limits {
    /// Limits of a process that may use 64 MiB for messages.
    pub const DEFAULT: Self = Self {
        call_timeout: Duration::from_secs(5),
        tool_message: KIB,
        calls: 512,
        internal_calls: 256,
        operator_calls: 64,
        imports: 16,
        data_in_flight: 44 * MIB,
        internal_in_flight: 16 * MIB,
        tools_in_flight: 16 * MIB,
        connection_share: 4,
    };
}
