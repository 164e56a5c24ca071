//! Batches of calls: calls that wait at the same time are sent to the core in one message, and each answer
//! returns as soon as it is known.
//!
//! No call waits for others: the first one is sent at once, in a batch with no other. Calls that arrive
//! before the core has begun to answer are queued, and sent as the next batch. A batch that is slow to answer
//! delays the next one for [`HOLD`] at most. Each call keeps its own deadline, and cancelling one cancels no
//! other.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use petstore_proto::internal::v1::{
    Call, CallRequest, answer::Outcome, batch_service_client::BatchServiceClient,
};
use prost::Message;
use tokio::{
    sync::oneshot,
    task::yield_now,
    time::{Instant, sleep},
};
use tonic::Status;

use self::under_way::UnderWay;
pub(super) use self::under_way::reply;
use super::{
    breaker::CoreBreaker,
    transport::{NamedTransport, TransportError},
};
use crate::error::is_transport_failure;

mod under_way;

#[cfg(test)]
mod tests;

/// Maximum number of batches that the core has not begun to answer. Beyond it, calls are queued.
const MAX_UNANSWERED: usize = 2;
/// Maximum time for which an unanswered batch delays others. A batch that takes longer does work that is not
/// worth waiting for.
const HOLD: Duration = Duration::from_millis(2);
/// Scheduler turns that a batch yields before it is sent, so that tasks that are ready can join it. A single
/// call yields fewer. Each turn handles what has arrived on sockets meanwhile, and takes no longer than that.
const GATHERING: usize = 3;
/// Maximum number of calls in one batch; a core accepts no more.
const MAX_CALLS: usize = 128;
/// Size of a batch in bytes at which it is closed, unless its only call is larger. With one more call, whose
/// body has 64 KiB at most, it stays below the 256 KiB that a core accepts.
const MAX_BYTES: usize = 128 * 1024;

/// Makes calls in batches. Must be used inside a tokio runtime.
#[derive(Debug)]
pub(super) struct Batcher {
    client: BatchServiceClient<NamedTransport>,
    breaker: Arc<CoreBreaker>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// `true` while a task is about to take the waiting calls.
    is_gathering: bool,
    /// Batches that delay others.
    unanswered: usize,
    /// Calls that were sent and are not answered yet.
    under_way: usize,
}

/// A call in the queue, without its timeout.
#[derive(Debug)]
struct Waiting {
    call: Call,
    deadline: Instant,
    answer: oneshot::Sender<Reply>,
}

/// Result of a call.
pub(super) type Reply = Result<Outcome, Status>;

impl Queue {
    /// Returns `true` if the caller is to begin a batch; it then holds a [`Turn`].
    fn begin(&mut self) -> bool {
        let begins = !self.is_gathering && !self.waiting.is_empty() && self.unanswered < MAX_UNANSWERED;
        if begins {
            self.is_gathering = true;
            self.unanswered += 1;
        }
        begins
    }

    /// Returns `true` if there is one call at most in the queue, and none in flight.
    fn is_single_call(&self) -> bool {
        self.waiting.len() <= 1 && self.under_way == 0
    }

    /// Takes the next batch from the queue, within the bounds. Calls whose callers have given up are left
    /// out.
    fn take(&mut self) -> Vec<Waiting> {
        self.is_gathering = false;
        let (mut batch, mut size) = (Vec::with_capacity(self.waiting.len().min(MAX_CALLS)), 0);
        while batch.len() < MAX_CALLS
            && size <= MAX_BYTES
            && let Some(next) = self.waiting.pop_front()
        {
            if !next.answer.is_closed() {
                size += next.call.encoded_len();
                self.under_way += 1;
                batch.push(next);
            }
        }
        batch
    }
}

impl Batcher {
    pub(super) fn new(core: NamedTransport, breaker: Arc<CoreBreaker>) -> Arc<Self> {
        Arc::new(Self { client: BatchServiceClient::new(core), breaker, queue: Mutex::default() })
    }

    /// Makes a call, which the core must answer by `deadline`.
    pub(super) async fn call(self: &Arc<Self>, call: Call, deadline: Instant) -> Reply {
        let (answer, answered) = oneshot::channel();
        {
            let mut queue = self.queue();
            queue.waiting.push_back(Waiting { call, deadline, answer });
            self.begin(queue);
        }
        answered.await.unwrap_or_else(|_| Err(Status::internal("a batch ended without an answer")))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner) // nothing panics while it holds the lock
    }

    /// Begins a batch, if one may begin now.
    fn begin(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        if queue.begin() {
            drop(queue);
            let turn = Turn { batcher: Arc::clone(self), is_over: AtomicBool::new(false) };
            tokio::spawn(turn.carry());
        }
    }

    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue();
        change(&mut queue);
        self.begin(queue);
    }
}

/// One batch's right to delay the next.
#[derive(Debug)]
struct Turn {
    batcher: Arc<Batcher>,
    is_over: AtomicBool,
}

impl Turn {
    /// Sends the queued calls, and delivers the answers.
    async fn carry(self) {
        for _ in 0..GATHERING {
            yield_now().await;
            if self.batcher.queue().is_single_call() {
                break;
            }
        }
        let mut batch = Vec::new();
        self.batcher.change(|queue| batch = queue.take());
        if batch.is_empty() {
            return;
        }
        let now = Instant::now();
        let (calls, answers) = batch.into_iter().map(|waiting| waiting.split(now)).unzip();
        let mut under_way = UnderWay::new(Arc::clone(&self.batcher), answers);
        let hold = async {
            sleep(HOLD).await;
            self.end();
            pending::<Infallible>().await
        };
        let ended = tokio::select! {
            biased;
            ended = self.batcher.breaker.guard(self.exchange(CallRequest { calls }, &mut under_way)) => ended,
            never = hold => match never {},
        };
        under_way.end(ended.map_err(Status::from));
    }

    /// Sends the batch and delivers its answers. An error means that an answer was lost; every other end of
    /// the exchange has already been delivered.
    async fn exchange(&self, request: CallRequest, under_way: &mut UnderWay) -> Result<(), TransportError> {
        let mut client = self.batcher.client.clone();
        let exchange = async {
            let Some(begun) = under_way.unless_abandoned(client.call(request)).await else { return Ok(()) };
            let mut answers = begun?.into_inner();
            while let Some(message) = under_way.unless_abandoned(answers.message()).await {
                let Some(message) = message? else { break };
                self.end();
                under_way.answer(message.answers);
            }
            Ok(())
        };
        match exchange.await {
            Err(status) if is_transport_failure(&status) => Err(TransportError::new(status)),
            Err(status) => {
                under_way.end(Err(status));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Lets the next batch begin.
    fn end(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.batcher.change(|queue| queue.unanswered -= 1);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

impl Waiting {
    fn split(self, now: Instant) -> (Call, oneshot::Sender<Reply>) {
        let left = self.deadline.saturating_duration_since(now).as_millis();
        let timeout_ms = u32::try_from(left).unwrap_or(u32::MAX).max(1); // 0 means "no timeout given"
        (Call { timeout_ms, ..self.call }, self.answer)
    }
}
