//! Lookups of keys in the core. Concurrent lookups of one key are coalesced, and waiting ones share calls,
//! so that guessing keys burdens the guesser instead of the core.
//!
//! They gather by the rule of `crates/core-client/src/batch.rs`. Here a batch does not yield: one is sent
//! every few milliseconds at most, and takes all lookups in the queue. So a gateway looks up as many keys as
//! it can accept requests: 200 calls a second with 1,000 keys each are 200,000 lookups a second. Only while
//! the core answers more slowly than that do lookups stay in the queue. Then refreshes of known keys go
//! first, and client addresses take turns, so that a flood of unknown keys from one address delays no other
//! address.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt, Shared as SharedFuture, WeakShared};
use parking_lot::Mutex;
use petstore_caller::{api_key::KeyDigest, client_address::ClientAddress};
use petstore_core_client::FairQueue;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{sleep, timeout},
};

use super::KeyError;

/// Number of slots.
const SLOTS: usize = 16;

/// Minimum time between two batches: 200 calls a second.
const BATCH_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of digests in one batch; the core accepts no more.
const MAX_BATCH: usize = 1_000;

/// Maximum time of a lookup in the queue. It is only reached if the core or this machine is overloaded.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of lookups in the queue, each about 100 bytes.
const MAX_QUEUE: usize = 100_000;

/// Makes calls about many digests, with answers of type `T`. All lookups of a call get clones of its answer.
pub(super) struct Lookups<T: Clone> {
    call: Box<dyn Fn(Vec<KeyDigest>) -> BoxFuture<'static, T> + Send + Sync>,
    slots: Arc<Semaphore>,
    queue: Mutex<Queue<T>>,
}

/// A call in flight. It is driven by the lookups that wait for it, and ends if all of them are dropped.
type Call<T> = SharedFuture<BoxFuture<'static, T>>;

struct Queue<T: Clone> {
    refreshes: VecDeque<QueuedLookup<T>>,
    unknown: FairQueue<ClientAddress, QueuedLookup<T>>,
    /// `true` while a [`Gatherer`] runs.
    is_gathering: bool,
}

/// A digest, and what receives the call that it is part of.
type QueuedLookup<T> = (KeyDigest, oneshot::Sender<Call<T>>);

impl<T: Clone + Send + Sync + 'static> Lookups<T> {
    pub(super) fn new(
        call: impl Fn(Vec<KeyDigest>) -> BoxFuture<'static, T> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let queue = Queue { refreshes: VecDeque::new(), unknown: FairQueue::default(), is_gathering: false };
        let slots = Arc::new(Semaphore::new(SLOTS));
        Arc::new(Self { call: Box::new(call), slots, queue: Mutex::new(queue) })
    }

    /// Returns the answer of a call that this digest is part of. A client at the address sent the key; `None`
    /// if the key is cached, but stale. Must be called inside a tokio runtime. If the future is dropped while
    /// it is in the queue, the core is not asked about the digest.
    ///
    /// # Errors
    /// [`KeyError::Overloaded`] if it waits for longer than [`QUEUE_TIMEOUT`], or the queue is full.
    pub(super) async fn find(
        self: &Arc<Self>,
        digest: KeyDigest,
        unknown_from: Option<ClientAddress>,
    ) -> Result<T, KeyError> {
        let (call, begun) = oneshot::channel();
        if self.queue.lock().push(unknown_from, (digest, call))? {
            tokio::spawn(Gatherer { lookups: Arc::clone(self), is_running: true }.run());
        }
        match timeout(QUEUE_TIMEOUT, begun).await {
            Ok(Ok(call)) => Ok(call.await),
            Ok(Err(_)) | Err(_) => Err(KeyError::Overloaded), // too late, or the gatherer ended
        }
    }
}

impl<T: Clone> Queue<T> {
    /// Adds a lookup. Returns `true` if the caller has to start a gatherer.
    fn push(
        &mut self,
        unknown_from: Option<ClientAddress>,
        queued: QueuedLookup<T>,
    ) -> Result<bool, KeyError> {
        if self.refreshes.len() + self.unknown.len() >= MAX_QUEUE {
            return Err(KeyError::Overloaded);
        }
        match unknown_from {
            None => self.refreshes.push_back(queued),
            Some(address) => self.unknown.push(address, queued),
        }
        Ok(!std::mem::replace(&mut self.is_gathering, true))
    }

    /// Takes the next batch from the queue, without lookups that were dropped.
    fn gather(&mut self) -> Vec<QueuedLookup<T>> {
        let mut batch = Vec::new();
        while batch.len() < MAX_BATCH
            && let Some(queued) = self.refreshes.pop_front().or_else(|| self.unknown.pop(|_| true))
        {
            if !queued.1.is_closed() {
                batch.push(queued);
            }
        }
        batch
    }
}

/// Task that begins calls until the queue is empty. However it ends, another one may be started.
struct Gatherer<T: Clone> {
    lookups: Arc<Lookups<T>>,
    is_running: bool,
}

impl<T: Clone + Send + Sync + 'static> Gatherer<T> {
    async fn run(mut self) {
        while let Ok(slot) = Arc::clone(&self.lookups.slots).acquire_owned().await
            && let Some(batch) = self.gather()
        {
            self.begin(batch, slot);
            sleep(BATCH_INTERVAL).await; // also before it ends, so that the next one does not begin too soon
        }
    }

    /// Takes the next batch. Returns `None` if the queue is empty; the next lookup then starts another
    /// gatherer.
    fn gather(&mut self) -> Option<Vec<QueuedLookup<T>>> {
        let mut queue = self.lookups.queue.lock();
        let batch = queue.gather();
        if batch.is_empty() {
            queue.is_gathering = false;
            self.is_running = false;
            return None;
        }
        Some(batch)
    }

    fn begin(&self, batch: Vec<QueuedLookup<T>>, slot: OwnedSemaphorePermit) {
        let call = (self.lookups.call)(batch.iter().map(|(digest, _)| *digest).collect());
        let call = async move {
            let _slot = slot; // until the answer has arrived, or no lookup waits for it
            call.await
        };
        let call = call.boxed().shared();
        for (_, lookup) in batch {
            let _ = lookup.send(call.clone()); // an error: it has just been dropped
        }
    }
}

impl<T: Clone> Drop for Gatherer<T> {
    fn drop(&mut self) {
        if self.is_running {
            self.lookups.queue.lock().is_gathering = false; // its runtime ended
        }
    }
}

/// Lookups in flight. A lookup is driven by the tasks that wait for it, and ends when all of them are
/// dropped.
pub(super) type SingleFlight<T> = Mutex<HashMap<KeyDigest, WeakShared<BoxFuture<'static, T>>>>;

/// Joins the lookup of `digest`, or starts it. `look_up` must first check if the answer is already cached:
/// another lookup may just have ended.
pub(super) fn join<T: Clone + Send + Sync + 'static, F: Future<Output = T> + Send + 'static>(
    flights: &SingleFlight<T>,
    digest: KeyDigest,
    look_up: impl FnOnce() -> F,
) -> SharedFuture<BoxFuture<'static, T>> {
    let mut flights = flights.lock();
    let flight = flights.get(&digest).and_then(WeakShared::upgrade);
    if let Some(flight) = flight.filter(|flight| flight.peek().is_none()) {
        return flight;
    }
    // Those that have ended are removed each time that the number of the others may have doubled, so that the
    // cost of a lookup is constant.
    if flights.len() == flights.capacity() {
        flights.retain(|_, flight| flight.upgrade().is_some());
        let live = flights.len();
        flights.reserve(live.max(8));
    }
    let flight = look_up().boxed().shared();
    if let Some(weak) = flight.downgrade() {
        flights.insert(digest, weak);
    }
    flight
}

#[cfg(test)]
mod tests;
