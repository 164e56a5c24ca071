//! Limits on concurrent work in the core, over all its transports.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::methods::Class;

/// Maximum number of calls in flight that read pets and orders, and of calls that change them: calls that
/// wait for a lock of the database take no permit of a read. Calls beyond a limit are refused at once.
pub(super) const MAX_CALLS: usize = 512;
/// Maximum number of calls in flight of gateways about keys, bans and usage.
pub(super) const MAX_INTERNAL_CALLS: usize = 256;
/// Maximum number of calls in flight of operators.
const MAX_OPERATOR_CALLS: usize = 64;
/// Maximum number of calls in flight whose credential is not yet known to be an operator's.
const MAX_GUESSES: usize = 1_024;
/// Maximum number of open import streams, most of which wait for their caller. Each may hold two messages of
/// [`super::methods::MAX_BULK`].
pub(super) const MAX_IMPORTS: usize = 16;
/// Maximum number of chunks of up to 1,000 pets that are written concurrently; others wait, in their order.
/// These keep two CPU cores and a database busy, and leave connections for calls about single pets.
pub(super) const MAX_CHUNKS: usize = 4;

/// Permits for each kind of work. Clones share them; none is ever closed.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(super) reads: Arc<Semaphore>,
    pub(super) writes: Arc<Semaphore>,
    pub(super) internal_calls: Arc<Semaphore>,
    pub(super) operators: Arc<Semaphore>,
    pub(super) guesses: Arc<Semaphore>,
    /// Open streams.
    imports: Arc<Semaphore>,
    /// Held by a stream only while it writes.
    pub(super) chunks: Arc<Semaphore>,
}

impl Capacity {
    /// Returns the permits of a class.
    pub(super) fn of(&self, class: Class) -> &Semaphore {
        match class {
            Class::Read | Class::Batch | Class::Tool => &self.reads,
            Class::Write => &self.writes,
            Class::Import => &self.imports,
            Class::Admin => &self.operators,
            Class::Internal => &self.internal_calls,
        }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            reads: permits(MAX_CALLS),
            writes: permits(MAX_CALLS),
            internal_calls: permits(MAX_INTERNAL_CALLS),
            operators: permits(MAX_OPERATOR_CALLS),
            guesses: permits(MAX_GUESSES),
            imports: permits(MAX_IMPORTS),
            chunks: permits(MAX_CHUNKS),
        }
    }
}
