//! Look-ups of keys in the core: those that wait share calls, so that guessing costs the guesser and not the
//! core.
//!
//! A call begins at once when none has begun lately, and takes all who wait. So a gateway looks up as many
//! keys as it can accept requests: 200 calls a second with 1,000 keys each are 200,000 look-ups a second.
//! Only while the core answers more slowly than that do keys wait for another call. Then keys that were known
//! go first, and the client addresses take turns, so that a flood of unknown keys from one address delays no
//! other address.

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

/// The most calls under way at once.
const IN_FLIGHT: usize = 16;

/// The time between the beginnings of two calls, at least: 200 calls a second.
const CALL_INTERVAL: Duration = Duration::from_millis(5);

/// The most digests in one call; the core takes no more.
const MAX_BATCH: usize = 1_000;

/// How long a look-up may wait for its turn. Only a core or a machine with too much to do makes it wait for
/// so long.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The most look-ups that wait, each some 100 bytes.
const MAX_WAITING: usize = 100_000;

/// Why a key is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Nothing is known of it; a client at this address sent it.
    Unknown(ClientAddress),
    /// It was known, but what is known may no longer hold.
    Refresh,
}

/// Too many look-ups wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overloaded;

/// Makes calls about many digests, with answers of type `T`. Clones of the answer go to all who waited for
/// it.
pub(super) struct Lookups<T>(Arc<Shared<T>>)
where
    T: Clone;

/// A call under way. It runs in those who wait for it: if all of them go away, it ends.
type Call<T> = SharedFuture<BoxFuture<'static, T>>;

struct Shared<T: Clone> {
    call: Box<dyn Fn(Vec<KeyDigest>) -> BoxFuture<'static, T> + Send + Sync>,
    in_flight: Arc<Semaphore>,
    queue: Mutex<Queue<T>>,
}

struct Queue<T: Clone> {
    refreshes: VecDeque<Waiting<T>>,
    unknown: FairQueue<ClientAddress, Waiting<T>>,
    /// Whether a [`Dispatcher`] runs.
    is_dispatched: bool,
}

struct Waiting<T: Clone> {
    digest: KeyDigest,
    /// Is told of the call that the digest is part of.
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

    /// The answer of a call that this digest is part of. Must be called inside a tokio runtime. If the future
    /// is dropped before its turn comes, the digest is not asked about.
    ///
    /// # Errors
    /// [`Overloaded`] when its turn does not come within [`MAX_WAIT`], or too many wait already.
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
    /// Never held over an await.
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Queue<T> {
    /// Whether a dispatcher has to be started.
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

    /// What goes into the next call; without those who do not wait any more.
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

/// The task that begins the calls, for as long as somebody waits. However it ends, another may be started.
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

    /// `None` when no look-up waits. From then on the next look-up has to start another dispatcher.
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
            let _permit = permit; // until the answer is there, or no look-up waits for it any more
            call.await
        };
        let call = call.boxed().shared();
        for waiting in batch {
            let _ = waiting.turn.send(call.clone()); // unless it went away just now
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

/// Shows nothing of what is looked up.
impl<T: Clone> fmt::Debug for Lookups<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
