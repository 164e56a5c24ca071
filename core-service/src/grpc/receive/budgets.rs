//! How many bytes of calls a server keeps, over all connections and on each.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use petstore_proto::internal::v1::batch_service_server;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::grpc::{INTERNAL_PACKAGES, MAX_MESSAGE, message_size::MAX_BULK_MESSAGE};

const MIB: usize = 1024 * 1024;
/// One connection may take so much of a budget that others are left the rest.
const CONNECTION_SHARE: usize = 4;

/// The bytes of calls that are not answered yet. Calls that cannot do without each other have a budget of
/// their own, so that a flood of one kind never refuses another. Clones share them; none is ever closed.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Budgets {
    /// Calls about pets and orders, alone or in batches: 12 of the largest messages on one connection.
    data: Arc<Semaphore>,
    /// Calls of gateways about keys, bans and usage: 16 of the largest messages on one connection.
    internal: Arc<Semaphore>,
    /// Health, which everybody may ask for, and reflection.
    tools: Arc<Semaphore>,
}

impl Budgets {
    /// Those of a server, over all its connections.
    pub(in crate::grpc) fn for_server() -> Self {
        Self::divided_by(1)
    }

    /// Those of one connection.
    pub(in crate::grpc) fn for_connection() -> Self {
        Self::divided_by(CONNECTION_SHARE)
    }

    fn divided_by(divisor: usize) -> Self {
        let budget = |bytes: usize| Arc::new(Semaphore::new(bytes / divisor));
        Self { data: budget(64 * MIB), internal: budget(16 * MIB), tools: budget(16 * MIB) }
    }

    /// The budget of a call, by its path: `/package.Service/Method`.
    fn for_path(&self, path: &str) -> &Arc<Semaphore> {
        let is_of = |package: &str| path.strip_prefix('/').is_some_and(|rpc| rpc.starts_with(package));
        if is_of(batch_service_server::SERVICE_NAME) {
            &self.data
        } else if is_of(INTERNAL_PACKAGES) {
            &self.internal
        } else if is_of("petstore.") {
            &self.data
        } else {
            &self.tools
        }
    }
}

const _: () = assert!(MAX_BULK_MESSAGE * 12 <= 64 * MIB / CONNECTION_SHARE);
const _: () = assert!(MAX_MESSAGE * 16 <= 16 * MIB / CONNECTION_SHARE);

/// What a call holds of the budgets, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    budgets: Vec<Arc<Semaphore>>,
    bytes: AtomicUsize,
}

impl HeldBytes {
    /// Nothing yet, of the budgets for calls with this path.
    pub(super) fn new<'b>(budgets: impl IntoIterator<Item = &'b Budgets>, path: &str) -> Self {
        let budgets = budgets.into_iter().map(|budgets| Arc::clone(budgets.for_path(path))).collect();
        Self { budgets, bytes: AtomicUsize::new(0) }
    }

    /// Whether so many bytes more could be had.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let Ok(permits) = u32::try_from(bytes) else { return false };
        let taken: Result<Vec<_>, _> =
            self.budgets.iter().map(|budget| budget.try_acquire_many(permits)).collect();
        let Ok(taken) = taken else { return false }; // what was taken of one is given back
        taken.into_iter().for_each(SemaphorePermit::forget);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Gives back all but so many bytes.
    pub(super) fn keep(&self, bytes: usize) {
        let held = self.bytes.fetch_min(bytes, Ordering::Relaxed);
        self.budgets.iter().for_each(|budget| budget.add_permits(held.saturating_sub(bytes)));
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_of_every_budget_or_of_none_and_gives_all_back() {
        let budgets = [10, 5].map(|bytes| Arc::new(Semaphore::new(bytes)));
        let held = HeldBytes { budgets: budgets.to_vec(), bytes: AtomicUsize::new(0) };
        let left = || budgets.each_ref().map(|budget| budget.available_permits());
        assert!(held.take(4) && !held.take(2));
        assert_eq!(left(), [6, 1]);
        held.keep(3);
        assert_eq!(left(), [7, 2]);
        drop(held);
        assert_eq!(left(), [10, 5]);
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_budget() {
        let budgets = Budgets::for_connection();
        let kinds = [
            "/petstore.v1.PetStore/ListPets",
            "/petstore.internal.v1.KeyService/ListChanges",
            "/grpc.health.v1.Health/Check",
        ];
        assert!(Arc::ptr_eq(budgets.for_path("/petstore.internal.v1.BatchService/Call"), &budgets.data));
        for (at, kind) in kinds.iter().enumerate() {
            let _all = budgets
                .for_path(kind)
                .try_acquire_many(u32::try_from(budgets.for_path(kind).available_permits()).unwrap());
            let free = kinds.map(|kind| budgets.for_path(kind).available_permits() > 0);
            assert_eq!(free, [0, 1, 2].map(|other| other != at));
        }
    }
}
