//! How much the core works on at once, over all its transports. Each kind of work has a bound of its own, so
//! that a flood of one never refuses another.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::INTERNAL_PACKAGES;

/// Calls about pets and orders at once; what comes on top is refused at once.
pub(super) const MAX_CALLS: usize = 512;
/// Calls of gateways about keys, bans and usage at once; what comes on top is refused at once.
pub(super) const MAX_INTERNAL_CALLS: usize = 256;
/// Calls of operators at once; what comes on top is refused at once.
const MAX_OPERATOR_CALLS: usize = 64;
/// Calls at once whose credential has yet to turn out to be an operator's; what comes on top is refused at
/// once.
const MAX_GUESSES: usize = 1_024;
/// Streams of imports that are open at once, most of them waiting for their caller; more are refused at once.
/// Each may hold two messages of [`super::message_size::MAX_BULK_MESSAGE`].
pub(super) const MAX_IMPORTS: usize = 64;
/// Chunks of up to 1,000 pets that are written at once; others wait, in their order. So many keep two cores
/// and a database busy, and leave connections for calls that want one pet.
pub(super) const MAX_CHUNKS: usize = 4;

/// Permits for each kind of work. Clones share them; none is ever closed.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(super) calls: Arc<Semaphore>,
    pub(super) internal_calls: Arc<Semaphore>,
    pub(super) operators: Arc<Semaphore>,
    pub(super) guesses: Arc<Semaphore>,
    /// Open streams; they hold no permit of `calls`.
    pub(super) imports: Arc<Semaphore>,
    /// Held by a stream only while it writes.
    pub(super) chunks: Arc<Semaphore>,
}

impl Capacity {
    /// The permits of a unary call, which is `package.Service/Method`.
    pub(super) fn for_method(&self, rpc: &str) -> &Semaphore {
        if rpc.starts_with(INTERNAL_PACKAGES) { &self.internal_calls } else { &self.calls }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            calls: permits(MAX_CALLS),
            internal_calls: permits(MAX_INTERNAL_CALLS),
            operators: permits(MAX_OPERATOR_CALLS),
            guesses: permits(MAX_GUESSES),
            imports: permits(MAX_IMPORTS),
            chunks: permits(MAX_CHUNKS),
        }
    }
}
