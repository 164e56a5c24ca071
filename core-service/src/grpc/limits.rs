//! Limits of the gRPC services that no setting changes. Those that a process chooses are in
//! [`GrpcServerLimits`](super::GrpcServerLimits).

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Maximum times, sizes and numbers. Sizes are in bytes.
#[derive(Debug)]
pub(super) struct Limits {
    /// Time for a call, from its first byte, if its caller sets no shorter timeout, and for each step of a
    /// stream.
    pub(super) call_timeout: Duration,

    /// Size of a message of most methods, either way. A page of 100 pets with the longest names has 110 KiB.
    pub(super) message: usize,
    /// Size of a message of the methods that carry up to 1,000 pets. With the longest names those have 1.03
    /// MiB.
    pub(super) bulk_message: usize,
    /// Size of an answer about keys. Each takes at most 1.8 KiB: the reasons of a suspension and of a ban
    /// have 200 characters each, and so up to 800 bytes.
    pub(super) keys_answer: usize,
    /// Size of a request of a tool, which contains a name.
    pub(super) tool_message: usize,
    /// Entries of one message of a gateway: digests, changes, uses, counts.
    pub(super) entries: usize,
    /// Calls in one batch: as many as one connection could carry separately.
    pub(super) batch: usize,

    /// Calls in flight that read pets and orders, and as many that change them: calls that wait for a lock of
    /// the database take no permit of a read. Calls beyond a limit are refused at once.
    pub(super) calls: usize,
    /// Calls in flight of gateways about keys, bans and usage.
    pub(super) internal_calls: usize,
    /// Calls in flight of operators.
    pub(super) operator_calls: usize,
    /// Calls in flight whose credential is not yet known to be an operator's.
    pub(super) guesses: usize,
    /// Open import streams, most of which wait for their caller. Each holds one message at a time.
    pub(super) imports: usize,
    /// Chunks of up to 1,000 pets that are written concurrently; others wait, in their order. These keep two
    /// CPU cores and a database busy, and leave connections for calls about single pets.
    pub(super) chunks: usize,

    /// Messages of unanswered calls about pets and orders, alone or in batches. With those of imports, which
    /// are limited in number, that makes 64 MiB.
    pub(super) data_in_flight: usize,
    /// Messages of unanswered calls of gateways and operators.
    pub(super) internal_in_flight: usize,
    /// Messages of unanswered calls of tools.
    pub(super) tools_in_flight: usize,
    /// Divisor of the three above for one connection, so that the rest is left to others.
    pub(super) connection_share: usize,
}

pub(super) const LIMITS: Limits = Limits {
    call_timeout: Duration::from_secs(5),
    message: 256 * KIB,
    bulk_message: 1_280 * KIB,
    keys_answer: 2_000 * KIB,
    tool_message: KIB,
    entries: 1_000,
    batch: 128,
    calls: 512,
    internal_calls: 256,
    operator_calls: 64,
    guesses: 1_024,
    imports: 16,
    chunks: 4,
    data_in_flight: 44 * MIB,
    internal_in_flight: 16 * MIB,
    tools_in_flight: 16 * MIB,
    connection_share: 4,
};

const _: () = assert!(LIMITS.data_in_flight + LIMITS.bulk_message * LIMITS.imports <= 64 * MIB);
// On one connection 8 of the largest messages, and 16 of a gateway's.
const _: () = assert!(LIMITS.bulk_message * 8 <= LIMITS.data_in_flight / LIMITS.connection_share);
const _: () = assert!(LIMITS.message * 16 <= LIMITS.internal_in_flight / LIMITS.connection_share);
