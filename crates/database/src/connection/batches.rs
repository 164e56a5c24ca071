//! Batches of calls of one kind, which share a statement.
//!
//! They gather by the rule of `crates/core-client/src/batch.rs`. Here a slot is a job that waits for a
//! connection, and gathers its batch when it has one. While a batch is overdue, one more slot is free. No
//! call joins a batch that is in flight, so each call sees everything that was committed before it was made.
//! A batch in flight is finished, as every job is, even if its callers have given up.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use petstore_telemetry::traces::Current;
use sea_orm::DbErr;
use tokio::{sync::oneshot, task, time};

use super::{
    ACQUIRE_TIMEOUT, Connections, Observer, Session,
    queue::{Job, Work},
};
use crate::fault::is_slow_connection;

/// Maximum number of slots of one kind of call, and the number of connections that they need.
pub(crate) const SLOTS: usize = 2;

/// Time after which a batch is overdue. It is longer than a batch takes unless it waits for a lock, a disk or
/// a network. There is one timer for each batch, not for each call: a timer that is due before all others
/// wakes the runtime's driver, which is a system call.
const OVERDUE_AFTER: Duration = Duration::from_millis(20);

/// A kind of call that is batched.
pub trait Batched: Clone + Send + Sync + 'static {
    /// A single call.
    type Call: Clone + Send + 'static;
    /// Answer to one call.
    type Answer: Clone + Send + 'static;
    /// Calls that are answered together. A batch limits its own size.
    type Batch: Default + Send + 'static;

    /// Adds the call to the batch, and returns the index of its answer. Gives the call back if the batch is
    /// full; an empty batch always has room.
    ///
    /// # Errors
    ///
    /// If the batch is full: the call.
    fn add(batch: &mut Self::Batch, call: Self::Call) -> Result<usize, Self::Call>;

    /// Returns the answers of the batch, in the order of its calls.
    fn answer(session: &Session, batch: Self::Batch) -> BoxFuture<'_, Result<Vec<Self::Answer>, DbErr>>;
}

/// Reason why a call was not answered.
#[derive(Debug)]
pub struct BatchError {
    /// Error of the statement, or of the wait for a connection.
    pub error: DbErr,
    /// `true` if the batch had other calls: it may have failed because of one of them.
    pub is_shared: bool,
}

/// Batches of calls of one kind to one server. Clones share the queue.
#[derive(Clone)]
pub struct Batches<B: Batched> {
    pub(crate) connections: Connections,
    /// Connections for calls that are repeated alone.
    pub(crate) alone: Connections,
    /// Number of slots while no batch is overdue.
    slots: usize,
    state: Arc<Mutex<State<B>>>,
}

struct State<B: Batched> {
    /// Waiting calls in order of arrival: their numbers ascend.
    queue: VecDeque<Queued<B>>,
    next_number: u64,
    /// Number of slots that are taken: those of batches in flight, and at most one whose batch has not
    /// gathered yet.
    slots: usize,
    /// Number of batches in flight.
    in_flight: usize,
    /// Number of batches that are overdue.
    overdue: usize,
}

/// A call in the queue.
struct Queued<B: Batched> {
    number: u64,
    call: B::Call,
    answer: AnswerSender<B>,
    /// Span of the caller. That of the first call encloses the statement.
    span: Current,
}

/// The callers of a batch, each with the index of its answer.
type Callers<B> = Vec<(usize, AnswerSender<B>)>;

type AnswerSender<B> = oneshot::Sender<Result<<B as Batched>::Answer, BatchError>>;

impl<B: Batched> Batches<B> {
    pub(crate) fn new(connections: Connections, alone: Connections, slots: usize) -> Self {
        let state = State { queue: VecDeque::new(), next_number: 0, slots: 0, in_flight: 0, overdue: 0 };
        Self { connections, alone, slots, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the answer to the call.
    ///
    /// # Errors
    ///
    /// If the call was not answered.
    pub async fn ask(&self, call: B::Call) -> Result<B::Answer, BatchError> {
        let (answer, mut answered) = oneshot::channel();
        let queued = self.enqueue(call, answer);
        let received = match time::timeout(ACQUIRE_TIMEOUT, &mut answered).await {
            Ok(received) => received,
            Err(_) if queued.withdraw() => {
                let error = self.connections.owners.shared.no_connection();
                return Err(BatchError { error, is_shared: false });
            }
            Err(_) => answered.await, // it is in flight
        };
        // The sender is gone only if the runtime is shutting down.
        received.unwrap_or_else(|_| Err(BatchError { error: no_answer(), is_shared: false }))
    }

    /// Returns the answer to the call, which runs as a batch of one, on connections for any statement.
    ///
    /// # Errors
    ///
    /// If the call was not answered.
    pub async fn ask_alone(&self, call: B::Call) -> Result<B::Answer, DbErr> {
        let mut batch = B::Batch::default();
        let index = B::add(&mut batch, call).map_err(|_| no_answer())?;
        let answers = self.alone.submit(|session| B::answer(session, batch)).await?;
        answers.get(index).cloned().ok_or_else(no_answer)
    }

    /// Queues the call. Its batch may begin at once.
    fn enqueue(&self, call: B::Call, answer: AnswerSender<B>) -> Withdrawal<'_, B> {
        let number = {
            let mut state = self.state.lock();
            let number = state.next_number;
            state.next_number += 1;
            state.queue.push_back(Queued { number, call, answer, span: Current::take() });
            number
        };
        self.take_slot();
        Withdrawal { batches: self, number }
    }

    /// Takes a slot for the calls in the queue, if one is free and none waits for its batch already.
    fn take_slot(&self) {
        {
            let mut state = self.state.lock();
            let free = SLOTS.min(self.slots + state.overdue);
            if state.queue.is_empty() || state.slots > state.in_flight || state.slots >= free {
                return;
            }
            state.slots += 1;
        }
        self.submit_slot();
    }

    fn submit_slot(&self) {
        let observer = self.connections.observer.clone();
        let slot = Slot {
            batches: self.clone(),
            observer,
            is_in_flight: false,
            is_overdue: false,
            callers: Vec::new(),
            result: None,
        };
        self.connections.owners.shared.queue.push(Job::new(Box::new(slot)));
    }

    /// Takes the calls that fit into one batch, the oldest first. Returns also their callers, each with the
    /// index of its answer, and the span of the first.
    fn gather(&self) -> (B::Batch, Callers<B>, Option<Current>) {
        let (mut batch, mut callers, mut first) = (B::Batch::default(), Vec::new(), None);
        let mut state = self.state.lock();
        while let Some(Queued { number, call, answer, span }) = state.queue.pop_front() {
            if answer.is_closed() {
                continue;
            }
            match B::add(&mut batch, call) {
                Ok(index) => callers.push((index, answer)),
                Err(call) => {
                    state.queue.push_front(Queued { number, call, answer, span });
                    break;
                }
            }
            first.get_or_insert(span);
        }
        state.in_flight += 1;
        (batch, callers, first)
    }
}

/// Withdraws a call from the queue when its caller gives up.
struct Withdrawal<'b, B: Batched> {
    batches: &'b Batches<B>,
    number: u64,
}

impl<B: Batched> Withdrawal<'_, B> {
    /// Withdraws the call if it is not in flight. Returns `true` if it was not.
    fn withdraw(&self) -> bool {
        let mut state = self.batches.state.lock();
        // Most calls in front have been answered: only older calls are gone from the front.
        if state.queue.front().is_none_or(|oldest| oldest.number > self.number) {
            return false;
        }
        let index = state.queue.binary_search_by_key(&self.number, |queued| queued.number);
        let withdrawn = index.ok().and_then(|index| state.queue.remove(index));
        drop(state); // what the call holds may take a while to go
        withdrawn.is_some()
    }
}

impl<B: Batched> Drop for Withdrawal<'_, B> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The slot of one batch: a job that gathers the batch when a connection is available.
struct Slot<B: Batched> {
    batches: Batches<B>,
    observer: Option<Observer>,
    is_in_flight: bool,
    is_overdue: bool,
    callers: Callers<B>,
    result: Option<Result<Vec<B::Answer>, DbErr>>,
}

impl<B: Batched> Work for Slot<B> {
    fn is_awaited(&self) -> bool {
        !self.batches.state.lock().queue.is_empty()
    }

    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()> {
        Box::pin(async move {
            // Yields so that tasks that are ready can join the batch. This costs no wait if there are none.
            for _ in 0..3 {
                task::yield_now().await;
                if self.batches.state.lock().queue.len() <= 1 {
                    break;
                }
            }
            let (batch, callers, first) = self.batches.gather();
            self.callers = callers;
            self.is_in_flight = true;
            self.batches.take_slot(); // for calls that did not fit
            let Some(span) = first else { return };
            session.begin_job(self.observer.take());
            let mut answering = pin!(span.within(B::answer(session, batch)));
            self.result = time::timeout(OVERDUE_AFTER, &mut answering).await.ok();
            if self.result.is_none() {
                self.is_overdue = true;
                self.batches.state.lock().overdue += 1;
                self.batches.take_slot();
                self.result = Some(answering.await);
            }
        })
    }

    fn fail(&mut self, error: DbErr) {
        if self.callers.is_empty() {
            // No connection became free in time. Each caller gives up at its own timeout.
            if is_slow_connection(&error) {
                return;
            }
            let queue = std::mem::take(&mut self.batches.state.lock().queue);
            self.callers = queue.into_iter().map(|queued| (0, queued.answer)).collect();
        }
        self.result = Some(Err(error));
    }

    fn answer(mut self: Box<Self>) {
        let is_shared = self.callers.len() > 1;
        let result = self.result.take().unwrap_or_else(|| Err(no_answer()));
        for (index, caller) in self.callers.drain(..) {
            let answer = match &result {
                Ok(answers) => answers.get(index).cloned().ok_or_else(no_answer),
                Err(error) => Err(error.clone()),
            };
            // Sending fails only if the caller has given up.
            let _ = caller.send(answer.map_err(|error| BatchError { error, is_shared }));
        }
    }
}

/// Gives the slot back, or keeps it for the calls in the queue, however the batch ended.
impl<B: Batched> Drop for Slot<B> {
    fn drop(&mut self) {
        {
            let mut state = self.batches.state.lock();
            state.in_flight -= usize::from(self.is_in_flight);
            state.overdue -= usize::from(self.is_overdue);
            let others = state.slots - 1;
            if state.queue.is_empty() || others > state.in_flight {
                state.slots = others;
                return;
            }
        }
        self.batches.submit_slot();
    }
}

fn no_answer() -> DbErr {
    DbErr::Custom("a batch has no answer to one of its calls".into())
}

#[cfg(test)]
mod tests;
