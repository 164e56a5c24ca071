//! Look-ups of keys in the core. Waiting look-ups share calls, so that guessing keys burdens the guesser
//! instead of the core.
//!
//! A call begins at once if none has begun in the last few milliseconds, and takes all waiting look-ups. So a
//! gateway looks up as many keys as it can accept requests: 200 calls a second with 1,000 keys each are
//! 200,000 look-ups a second. Only while the core answers more slowly than that do look-ups wait for another
//! call. Then refreshes of known keys go first, and client addresses take turns, so that a flood of unknown
//! keys from one address delays no other address.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt, Shared as SharedFuture};
use petstore_api_key::KeyDigest;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{sleep, timeout},
};

use crate::{client_address::ClientAddress, fair_queue::FairQueue};

/// Maximum number of calls in flight.
const IN_FLIGHT: usize = 16;

/// Minimum time between the beginnings of two calls: 200 calls a second.
const CALL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of digests in one call; the core accepts no more.
const MAX_BATCH: usize = 1_000;

/// Maximum time for which a look-up waits for its turn. It is only reached if the core or this machine is
/// overloaded.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Maximum number of waiting look-ups, each about 100 bytes.
const MAX_WAITING: usize = 100_000;

/// Reason of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The key is not cached; a client at this address sent it.
    Unknown(ClientAddress),
    /// The key is cached, but stale.
    Refresh,
}

/// Too many look-ups are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overloaded;

/// Makes calls about many digests, with answers of type `T`. All look-ups of a call get clones of its answer.
pub(super) struct Lookups<T>(Arc<Shared<T>>)
where
    T: Clone;

/// A call in flight. It is driven by the look-ups that wait for it, and ends if all of them are dropped.
type Call<T> = SharedFuture<BoxFuture<'static, T>>;

struct Shared<T: Clone> {
    call: Box<dyn Fn(Vec<KeyDigest>) -> BoxFuture<'static, T> + Send + Sync>,
    in_flight: Arc<Semaphore>,
    queue: Mutex<Queue<T>>,
}

struct Queue<T: Clone> {
    refreshes: VecDeque<Waiting<T>>,
    unknown: FairQueue<ClientAddress, Waiting<T>>,
    /// `true` while a [`Dispatcher`] runs.
    is_dispatched: bool,
}

struct Waiting<T: Clone> {
    digest: KeyDigest,
    /// Receives the call that the digest is part of.
    turn: oneshot::Sender<Call<T>>,
}

impl<T: Clone + Send + Sync + 'static> Lookups<T> {
    pub(super) fn new(
        call: impl Fn(Vec<KeyDigest>) -> BoxFuture<'static, T> + Send + Sync + 'static,
    ) -> Self {
        let queue = Queue { refreshes: VecDeque::new(), unknown: FairQueue::default(), is_dispatched: false };
        Self(Arc::new(Shared {
            call: Box::new(call),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT)),
            queue: Mutex::new(queue),
        }))
    }

    /// Returns the answer of a call that this digest is part of. Must be called inside a tokio runtime. If
    /// the future is dropped before its turn, the core is not asked about the digest.
    ///
    /// # Errors
    /// [`Overloaded`] if its turn does not come within [`MAX_WAIT`], or too many look-ups wait already.
    pub(super) async fn find(&self, digest: KeyDigest, purpose: Purpose) -> Result<T, Overloaded> {
        let (turn, my_turn) = oneshot::channel();
        if self.0.queue().push(purpose, Waiting { digest, turn })? {
            tokio::spawn(Dispatcher { shared: Arc::clone(&self.0), is_running: true }.run());
        }
        match timeout(MAX_WAIT, my_turn).await {
            Ok(Ok(call)) => Ok(call.await),
            Ok(Err(_)) | Err(_) => Err(Overloaded), // too late, or the dispatcher ended with its runtime
        }
    }
}

impl<T: Clone> Shared<T> {
    /// Locks the queue. The lock is never held over an await.
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Queue<T> {
    /// Adds a look-up. Returns `true` if the caller has to start a dispatcher.
    fn push(&mut self, purpose: Purpose, waiting: Waiting<T>) -> Result<bool, Overloaded> {
        if self.refreshes.len() + self.unknown.len() >= MAX_WAITING {
            return Err(Overloaded);
        }
        match purpose {
            Purpose::Refresh => self.refreshes.push_back(waiting),
            Purpose::Unknown(address) => self.unknown.push(address, waiting),
        }
        Ok(!std::mem::replace(&mut self.is_dispatched, true))
    }

    /// Takes the look-ups of the next call, without those that were dropped.
    fn next_batch(&mut self) -> Vec<Waiting<T>> {
        let mut batch = Vec::new();
        while batch.len() < MAX_BATCH
            && let Some(waiting) = self.refreshes.pop_front().or_else(|| self.unknown.pop(|_| true))
        {
            if !waiting.turn.is_closed() {
                batch.push(waiting);
            }
        }
        batch
    }
}

/// Task that begins calls while look-ups wait. However it ends, another one may be started.
struct Dispatcher<T: Clone> {
    shared: Arc<Shared<T>>,
    is_running: bool,
}

impl<T: Clone + Send + Sync + 'static> Dispatcher<T> {
    async fn run(mut self) {
        while let Ok(permit) = Arc::clone(&self.shared.in_flight).acquire_owned().await
            && let Some(batch) = self.next_batch()
        {
            self.begin(batch, permit);
            sleep(CALL_INTERVAL).await; // also before it ends, so that the next one does not begin too soon
        }
    }

    /// Takes the next batch. Returns `None` if no look-up waits; the next look-up then starts another
    /// dispatcher.
    fn next_batch(&mut self) -> Option<Vec<Waiting<T>>> {
        let mut queue = self.shared.queue();
        let batch = queue.next_batch();
        if batch.is_empty() {
            queue.is_dispatched = false;
            self.is_running = false;
            return None;
        }
        Some(batch)
    }

    fn begin(&self, batch: Vec<Waiting<T>>, permit: OwnedSemaphorePermit) {
        let call = (self.shared.call)(batch.iter().map(|waiting| waiting.digest).collect());
        let call = async move {
            let _permit = permit; // until the answer has arrived, or no look-up waits for it any more
            call.await
        };
        let call = call.boxed().shared();
        for waiting in batch {
            let _ = waiting.turn.send(call.clone()); // an error: it has just been dropped
        }
    }
}

impl<T: Clone> Drop for Dispatcher<T> {
    fn drop(&mut self) {
        if self.is_running {
            self.shared.queue().is_dispatched = false; // its runtime ended
        }
    }
}

/// Omits the keys that are looked up.
impl<T: Clone> fmt::Debug for Lookups<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
