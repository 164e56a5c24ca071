//! Budgets of bytes for messages that are in flight. tonic and tower count calls, not bytes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    capacity::MAX_IMPORTS,
    methods::{Class, MAX_BULK, MAX_MESSAGE},
};

const MIB: usize = 1024 * 1024;
/// Fraction of a budget that one connection may take, so that the rest is left for others.
const CONNECTION_SHARE: usize = 4;

/// The bytes of calls that are not answered yet, by kind: a flood of one kind never refuses another, health
/// least of all. Clones share them; none is ever closed.
#[derive(Clone, Debug)]
pub(super) struct Budgets {
    /// Calls about pets and orders, alone or in batches: 8 of the largest messages on one connection. With
    /// the messages of imports, which are bounded in number, that makes 64 MiB.
    data: Arc<Semaphore>,
    /// Calls of gateways and operators: 16 of the largest messages on one connection.
    internal: Arc<Semaphore>,
    /// Health, which every peer may call, and reflection.
    tools: Arc<Semaphore>,
}

impl Budgets {
    /// Returns the budgets of one connection.
    pub(super) fn for_connection() -> Self {
        Self::divided_by(CONNECTION_SHARE)
    }

    pub(super) fn divided_by(divisor: usize) -> Self {
        let budget = |bytes: usize| Arc::new(Semaphore::new(bytes / divisor));
        Self { data: budget(DATA), internal: budget(16 * MIB), tools: budget(16 * MIB) }
    }

    pub(super) fn of(&self, class: Class) -> &Arc<Semaphore> {
        match class {
            Class::Read | Class::Write | Class::Import | Class::Batch => &self.data,
            Class::Internal | Class::Admin => &self.internal,
            Class::Tool => &self.tools,
        }
    }
}

const DATA: usize = 44 * MIB;
const _: () = assert!(DATA + MAX_BULK * MAX_IMPORTS <= 64 * MIB);
const _: () = assert!(MAX_BULK * 8 <= DATA / CONNECTION_SHARE);
const _: () = assert!(MAX_MESSAGE * 16 <= 16 * MIB / CONNECTION_SHARE);

/// Bytes that a call holds of the server's and of its connection's budget, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    budgets: [Option<Arc<Semaphore>>; 2],
    bytes: AtomicUsize,
}

impl HeldBytes {
    /// Returns a hold on these budgets that holds nothing yet.
    pub(super) fn new(budgets: [Option<Arc<Semaphore>>; 2]) -> Self {
        Self { budgets, bytes: AtomicUsize::new(0) }
    }

    /// Takes more bytes from every budget. Returns `false`, and takes nothing, if one has too few.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let Ok(permits) = u32::try_from(bytes) else { return false };
        let [server, connection] = self.budgets.each_ref().map(|budget| match budget {
            Some(budget) => budget.try_acquire_many(permits).map(Some),
            None => Ok(None),
        });
        let (Ok(server), Ok(connection)) = (server, connection) else { return false };
        [server, connection].into_iter().flatten().for_each(SemaphorePermit::forget);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.budgets.iter().flatten().for_each(|budget| budget.add_permits(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_all_its_budgets_or_none_and_returns_them() {
        let budgets = [10, 5].map(|bytes| Arc::new(Semaphore::new(bytes)));
        let held = HeldBytes::new(budgets.clone().map(Some));
        let left = || budgets.each_ref().map(|budget| budget.available_permits());
        assert!(held.take(4) && !held.take(2));
        assert_eq!(left(), [6, 1]);
        drop(held);
        assert_eq!(left(), [10, 5]);
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_budgets_of_the_others() {
        let budgets = Budgets::for_connection();
        let kinds = [Class::Read, Class::Internal, Class::Tool];
        for (at, kind) in kinds.into_iter().enumerate() {
            let budget = budgets.of(kind);
            let _all = budget.try_acquire_many(u32::try_from(budget.available_permits()).unwrap());
            let free = kinds.map(|kind| budgets.of(kind).available_permits() > 0);
            assert_eq!(free, [0, 1, 2].map(|other| other != at));
        }
    }
}
