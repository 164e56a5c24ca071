//! Batches of calls: calls that wait at the same time are sent to the core in one message, and each answer
//! returns as soon as it is known. Each call keeps its own deadline, and cancelling one cancels no other.
//!
//! # The rule of gathering
//!
//! Four queues share the cost of a round trip by one rule, and use the same names for its parts: calls to the
//! core (this file), decisions in Redis (`crates/rate-limit/src/redis/batch.rs`), lookups of keys
//! (`crates/key-cache/src/lookups.rs`), and statements of the database
//! (`crates/database/src/connection/batches.rs`).
//!
//! - An entry is put into the **queue**. If its caller gives up while it is there, it is not sent.
//! - A **batch** needs a **slot**, of which there are few. While one is free, an entry is sent at once,
//!   without waiting for others to arrive. While none is free, entries stay in the queue.
//! - To **gather** is to fill a batch with entries of the queue, up to the bounds of a batch. Before that, a
//!   batch yields to the scheduler a few times so that tasks that are ready can join it. An entry that is
//!   alone yields fewer times, because no others can be expected.
//! - The batch is **in flight** until its entries are answered. Its slot is free again then, or earlier where
//!   the next batch need not wait for it.
//!
//! Here a batch gives its slot back when the core begins to answer, and after [`HOLD`] at the latest.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{pending, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use petstore_proto::internal::v1::{
    Answer, Call, CallRequest, CallStatus, answer::Outcome, batch_service_client::BatchServiceClient,
};
use prost::{Message, bytes::Bytes};
use tokio::{
    sync::oneshot,
    task::yield_now,
    time::{Instant, sleep},
};
use tonic::{Code, Status};

use super::{
    breaker::CoreBreaker,
    transport::{NamedTransport, lost_or_answered},
};

/// Number of slots.
const SLOTS: usize = 2;
/// Maximum time for which a batch holds its slot. A batch that takes longer does work that is not worth
/// waiting for.
const HOLD: Duration = Duration::from_millis(2);
/// Number of times a batch yields to the scheduler while it gathers. Each handles what has arrived on sockets
/// meanwhile, and takes no longer than that.
const GATHERING: usize = 3;
/// Maximum number of calls in one batch; a core accepts no more.
const MAX_BATCH: usize = 128;
/// Size of a batch in bytes at which it is closed, unless its only call is larger. With one more call, whose
/// body has 64 KiB at most, it stays below the 256 KiB that a core accepts.
const MAX_BYTES: usize = 128 * 1024;

/// Queue of calls, which are made in batches. Must be used inside a tokio runtime.
pub(super) struct CallQueue {
    client: BatchServiceClient<NamedTransport>,
    breaker: Arc<CoreBreaker>,
    state: Mutex<BatchState>,
}

#[derive(Default)]
struct BatchState {
    queue: VecDeque<QueuedCall>,
    /// `true` while a batch gathers.
    is_gathering: bool,
    /// Slots that are taken.
    slots: usize,
    /// Calls in flight.
    in_flight: usize,
}

/// A call in the queue, without its timeout.
struct QueuedCall {
    call: Call,
    deadline: Instant,
    answer: oneshot::Sender<Reply>,
}

/// Result of a call, the response encoded.
pub(super) type Reply = Result<Bytes, Status>;

impl BatchState {
    /// Takes a slot for a batch of the queued calls. Returns `false` if there is none to begin.
    fn take_slot(&mut self) -> bool {
        let begins = !self.is_gathering && !self.queue.is_empty() && self.slots < SLOTS;
        if begins {
            self.is_gathering = true;
            self.slots += 1;
        }
        begins
    }

    /// Returns `true` if there is one call at most in the queue, and none in flight.
    fn is_single_call(&self) -> bool {
        self.queue.len() <= 1 && self.in_flight == 0
    }

    /// Takes the next batch from the queue, without calls whose callers have given up.
    fn gather(&mut self) -> Vec<QueuedCall> {
        self.is_gathering = false;
        let (mut batch, mut size) = (Vec::with_capacity(self.queue.len().min(MAX_BATCH)), 0);
        while batch.len() < MAX_BATCH
            && size <= MAX_BYTES
            && let Some(next) = self.queue.pop_front()
        {
            if !next.answer.is_closed() {
                size += next.call.encoded_len();
                self.in_flight += 1;
                batch.push(next);
            }
        }
        batch
    }
}

impl CallQueue {
    pub(super) fn new(core: NamedTransport, breaker: Arc<CoreBreaker>) -> Arc<Self> {
        Arc::new(Self { client: BatchServiceClient::new(core), breaker, state: Mutex::default() })
    }

    /// Makes a call, which the core must answer by `deadline`.
    pub(super) async fn call(self: &Arc<Self>, call: Call, deadline: Instant) -> Reply {
        let (answer, answered) = oneshot::channel();
        self.change(|state| state.queue.push_back(QueuedCall { call, deadline, answer }));
        answered.await.unwrap_or_else(|_| Err(Status::internal("a batch ended without an answer")))
    }

    /// Changes the state, and begins a batch if one may begin then.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut BatchState) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        if state.take_slot() {
            drop(state);
            let slot = BatchSlot { queue: Arc::clone(self), is_free: AtomicBool::new(false) };
            tokio::spawn(slot.carry());
        }
        changed
    }
}

/// Slot that a batch has taken.
struct BatchSlot {
    queue: Arc<CallQueue>,
    is_free: AtomicBool,
}

impl BatchSlot {
    /// Gathers a batch, sends it and delivers the answers.
    async fn carry(self) {
        for _ in 0..GATHERING {
            yield_now().await;
            if self.queue.state.lock().is_single_call() {
                break;
            }
        }
        let batch = self.queue.change(BatchState::gather);
        if batch.is_empty() {
            return;
        }
        let now = Instant::now();
        let (calls, callers) = batch.into_iter().map(|queued| queued.split(now)).unzip();
        let mut in_flight = BatchInFlight::new(Arc::clone(&self.queue), callers);
        let hold = async {
            sleep(HOLD).await;
            self.free();
            pending::<Infallible>().await
        };
        let ended = {
            // Pinned here: each function that took it as an argument would keep two copies of its state.
            let exchange = pin!(self.exchange(CallRequest { calls }, &mut in_flight));
            tokio::select! {
                biased;
                ended = self.queue.breaker.guard(lost_or_answered(exchange)) => ended,
                never = hold => match never {},
            }
        };
        in_flight.end(ended.unwrap_or_else(|lost| Err(lost.into())));
    }

    /// Sends the batch and delivers its answers.
    async fn exchange(&self, request: CallRequest, in_flight: &mut BatchInFlight) -> Result<(), Status> {
        let mut client = self.queue.client.clone();
        let call = pin!(client.call(request));
        let Some(begun) = in_flight.unless_abandoned(call).await else { return Ok(()) };
        let mut answers = begun?.into_inner();
        while let Some(message) = in_flight.unless_abandoned(answers.message()).await {
            let Some(message) = message? else { break };
            self.free();
            in_flight.answer(message.answers);
        }
        Ok(())
    }

    /// Gives the slot back, once.
    fn free(&self) {
        if !self.is_free.swap(true, Ordering::Relaxed) {
            self.queue.change(|state| state.slots -= 1);
        }
    }
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        self.free();
    }
}

impl QueuedCall {
    fn split(self, now: Instant) -> (Call, oneshot::Sender<Reply>) {
        let left = self.deadline.saturating_duration_since(now).as_millis();
        let timeout_ms = u32::try_from(left).unwrap_or(u32::MAX).max(1); // 0 means "no timeout given"
        (Call { timeout_ms, ..self.call }, self.answer)
    }
}

/// Batch in flight, with the callers that wait for its answers.
struct BatchInFlight {
    queue: Arc<CallQueue>,
    /// Callers by the position of their call in the batch; `None` once a call is answered or its caller has
    /// given up.
    callers: Vec<Option<oneshot::Sender<Reply>>>,
    /// Calls that are not answered, including those whose callers have given up.
    unanswered: usize,
    /// Position before which no caller is waiting.
    first: usize,
    /// `true` if a caller has given up.
    is_given_up: bool,
}

impl BatchInFlight {
    fn new(queue: Arc<CallQueue>, callers: Vec<oneshot::Sender<Reply>>) -> Self {
        let callers: Vec<_> = callers.into_iter().map(Some).collect();
        Self { queue, unanswered: callers.len(), callers, first: 0, is_given_up: false }
    }

    /// Delivers answers to their callers.
    fn answer(&mut self, answers: Vec<Answer>) {
        let answered = answers.len().min(self.unanswered);
        for answer in answers {
            let place = usize::try_from(answer.call).ok();
            if let Some(caller) = place.and_then(|place| self.callers.get_mut(place)?.take()) {
                let _ = caller.send(reply(answer)); // an error: the caller has given up
            }
        }
        self.settle(answered);
    }

    /// Fails the calls that are still unanswered, with the reason why no more answers come.
    fn end(&mut self, ended: Result<(), Status>) {
        if self.unanswered == 0 {
            return;
        }
        let failure = match ended {
            Err(status) => status,
            Ok(()) => Status::internal("a call of a batch was not answered"),
        };
        for caller in self.callers.iter_mut().filter_map(Option::take) {
            let _ = caller.send(Err(failure.clone()));
        }
        self.settle(self.unanswered);
    }

    fn settle(&mut self, answered: usize) {
        self.unanswered -= answered;
        self.queue.change(|state| state.in_flight -= answered);
    }

    /// Returns the future's output, or `None` if every caller has given up before it is ready.
    async fn unless_abandoned<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_abandoned(context).map(|()| None),
        })
        .await
    }

    /// Polls until every caller without an answer has given up. Watching one caller that waits is enough.
    fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(place) = self.callers.get_mut(self.first) {
            if let Some(caller) = place {
                match caller.poll_closed(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.is_given_up = true,
                }
                *place = None;
            }
            self.first += 1;
        }
        if self.is_given_up { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for BatchInFlight {
    fn drop(&mut self) {
        self.settle(self.unanswered);
    }
}

/// Returns the result that an answer in a batch stands for.
fn reply(answer: Answer) -> Reply {
    match answer.outcome {
        Some(Outcome::Failure(CallStatus { code, message, details })) => {
            Err(Status::with_details(Code::from_i32(code), message, details.into()))
        }
        Some(Outcome::Message(response)) => Ok(response),
        _ => Err(Status::internal("the core answered in another form than the call's")),
    }
}

#[cfg(test)]
mod tests;
