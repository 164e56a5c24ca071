//! Limits of the gRPC services that no setting changes. Those that a process chooses are in
//! `GrpcServerLimits`.

const KIB: usize = 1024;

/// Maximum sizes, in bytes, and numbers.
#[derive(Debug)]
pub(crate) struct MessageLimits {
    /// Size of a message of most methods, either way. A page of 100 pets with the longest names has 110 KiB.
    pub(crate) message: usize,
    /// Size of a message of the methods that carry up to 1,000 pets. With the longest names those have 1.03
    /// MiB.
    pub(crate) bulk_message: usize,
    /// Size of an answer about keys. Each takes at most 1.8 KiB: the reasons of a suspension and of a ban
    /// have 200 characters each, and so up to 800 bytes.
    pub(crate) keys_answer: usize,
    /// Size of a request of a tool, which contains a name.
    pub(crate) tool_message: usize,
    /// Entries of one message of a gateway: digests, changes, uses, counts.
    pub(crate) entries: usize,
    /// Calls in one batch: as many as one connection could carry separately.
    pub(crate) batch: usize,

    /// Chunks of up to 1,000 pets that are written concurrently; others wait, in their order. These keep two
    /// CPU cores and a database busy, and leave connections for calls about single pets.
    pub(crate) chunks: usize,
}

pub(crate) const LIMITS: MessageLimits = MessageLimits {
    message: 256 * KIB,
    bulk_message: 1_280 * KIB,
    keys_answer: 2_000 * KIB,
    tool_message: BOUNDS.tool_message,
    entries: 1_000,
    batch: 128,
    chunks: 4,
};

/// Bounds of all calls. A call has its time from its first byte, unless its caller sets a shorter timeout.
/// Each step of a stream has the same time.
pub(crate) const BOUNDS: petstore_grpc_server::Limits = petstore_grpc_server::Limits::DEFAULT;

const _: () = assert!(BOUNDS.data_in_flight + LIMITS.bulk_message * BOUNDS.imports <= 64 * 1024 * KIB);
// On one connection 8 of the largest messages, and 16 of a gateway's.
const _: () = assert!(LIMITS.bulk_message * 8 <= BOUNDS.data_in_flight / BOUNDS.connection_share);
const _: () = assert!(LIMITS.message * 16 <= BOUNDS.internal_in_flight / BOUNDS.connection_share);
