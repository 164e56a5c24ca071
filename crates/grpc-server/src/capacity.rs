//! Limits that no setting changes, and the capacity for concurrent work: calls over all transports, and bytes
//! of messages in flight on the port. tonic and tower count calls, without kinds, and not bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::methods::Class;

/// Maximum times, sizes and numbers. Sizes are in bytes.
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
    /// Open streams of answers for anyone, on one connection.
    pub watches_of_connection: usize,
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
        watches_of_connection: 64 * KIB, // 2 KiB and the request each, which takes 5 KiB
    };
}

/// Returns permits of calls that read, calls that write, internal calls, those of operators, and imports.
pub(super) fn permits(limits: &Limits) -> [Semaphore; 5] {
    let Limits { calls, internal_calls, operator_calls, imports, .. } = *limits;
    [calls, calls, internal_calls, operator_calls, imports].map(Semaphore::new)
}

/// Bytes of calls that are not answered yet, by kind: a flood of one kind never leads to refusals of another,
/// least of all of health. Clones share them; none is ever closed.
#[derive(Clone)]
pub(super) struct Budgets([Arc<Semaphore>; 4]);

impl Budgets {
    /// Returns the budgets of the server. A connection alone limits watches: a peer with many connections
    /// would otherwise take those of all others.
    pub(super) fn of_server(limits: &Limits) -> Self {
        Self::new(limits, 1, Semaphore::MAX_PERMITS)
    }

    /// Returns the share of one connection.
    pub(super) fn of_connection(limits: &Limits) -> Self {
        Self::new(limits, limits.connection_share, limits.watches_of_connection)
    }

    fn new(limits: &Limits, divisor: usize, watches: usize) -> Self {
        let Limits { data_in_flight, internal_in_flight, tools_in_flight, .. } = *limits;
        let [data, internal, tools] =
            [data_in_flight, internal_in_flight, tools_in_flight].map(|bytes| bytes / divisor);
        Self([data, internal, tools, watches].map(|bytes| Arc::new(Semaphore::new(bytes))))
    }

    pub(super) fn of(&self, class: Class) -> &Arc<Semaphore> {
        let [data, internal, tools, watches] = &self.0;
        match class {
            Class::Read | Class::Write | Class::Import | Class::Batch => data,
            Class::Internal | Class::Admin => internal,
            Class::Tool => tools,
            Class::Watch => watches,
        }
    }
}

/// Bytes that a call holds of the server's and of its connection's budget, until it is dropped.
pub(super) struct HeldBytes {
    budgets: [Arc<Semaphore>; 2],
    bytes: AtomicUsize,
}

impl HeldBytes {
    /// Returns a hold on these budgets that holds nothing yet.
    pub(super) fn new(budgets: [Arc<Semaphore>; 2]) -> Self {
        Self { budgets, bytes: AtomicUsize::new(0) }
    }

    /// Takes more bytes from both budgets. Returns `false`, and takes nothing, if one has too few.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let Ok(permits) = u32::try_from(bytes) else { return false };
        let taken = self.budgets.each_ref().map(|budget| budget.try_acquire_many(permits));
        let [Ok(server), Ok(connection)] = taken else { return false };
        [server, connection].into_iter().for_each(SemaphorePermit::forget);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.budgets.iter().for_each(|budget| budget.add_permits(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_of_both_budgets_or_of_none_and_gives_all_back() {
        let budgets = [10, 5].map(|bytes| Arc::new(Semaphore::new(bytes)));
        let held = HeldBytes::new(budgets.clone());
        let left = || budgets.each_ref().map(|budget| budget.available_permits());
        assert!(held.take(4) && !held.take(2));
        assert_eq!(left(), [6, 1]);
        drop(held);
        assert_eq!(left(), [10, 5]);
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_budget() {
        let budgets = Budgets::of_connection(&Limits::DEFAULT);
        let kinds = [Class::Read, Class::Internal, Class::Tool, Class::Watch];
        for (at, kind) in kinds.into_iter().enumerate() {
            let budget = budgets.of(kind);
            let _all = budget.try_acquire_many(u32::try_from(budget.available_permits()).unwrap());
            let free = kinds.map(|kind| budgets.of(kind).available_permits() > 0);
            assert_eq!(free, [0, 1, 2, 3].map(|other| other != at));
        }
    }
}
