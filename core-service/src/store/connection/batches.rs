//! Batching of waiting calls of one kind.
//!
//! The first call is sent at once. Calls that arrive while it is in flight are queued, and are sent as one
//! batch once it has ended: no call waits for others to arrive. No call joins a batch that is in flight, so
//! each call sees everything that was committed before it was made.
//!
//! A call that is cancelled while it is queued is withdrawn. A call that has begun is finished, as every job
//! is.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use petstore_telemetry::traces::Current;
use sea_orm::{ConnAcquireErr, DbErr};
use tokio::{sync::oneshot, task, time};

use super::{
    ACQUIRE_TIMEOUT, Connections, Observer, Session,
    job::{Job, Kind, Work},
};

/// Time after which a batch is overdue, and one more connection serves the queue. It is longer than a batch
/// takes unless it waits for a lock, a disk or a network. There is one timer for each batch, not for each
/// call: a timer that is due before all others wakes the runtime's driver, which is a system call.
const OVERDUE_AFTER: Duration = Duration::from_millis(20);

/// Number of times a batch of more than one call yields to the scheduler so that tasks that are ready can
/// join it.
const GATHERING: usize = 3;

/// A kind of call that is batched.
pub(in crate::store) trait Batched: Send + Sync + 'static {
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

/// Reason for which a call was not answered.
#[derive(Debug)]
pub(in crate::store) struct BatchError {
    pub(in crate::store) error: DbErr,
    /// `true` if the batch had other calls: it may have failed because of one of them.
    pub(in crate::store) is_shared: bool,
}

/// Limits on concurrent batches.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Turns {
    /// Number of batches that may run concurrently.
    pub(in crate::store) at_once: usize,
    /// Upper bound while batches are overdue.
    pub(in crate::store) most: usize,
}

/// Batching of calls of one kind on these connections. Clones share the queue.
pub(in crate::store) struct Batches<B: Batched> {
    connections: Connections,
    lane: Arc<Lane<B>>,
}

/// The queue of calls.
struct Lane<B: Batched> {
    turns: Turns,
    state: Mutex<State<B>>,
}

struct State<B: Batched> {
    /// Waiting calls in order of arrival: their numbers ascend.
    waiting: VecDeque<Waiting<B>>,
    next_number: u64,
    /// Number of turns that have begun, plus at most one that has not. That one takes all calls that are
    /// queued by then.
    turns: usize,
    begun: usize,
    /// Number of turns that are overdue (see [`OVERDUE_AFTER`]). For each, one more may begin.
    overdue: usize,
}

struct Waiting<B: Batched> {
    number: u64,
    call: B::Call,
    caller: Caller<B::Answer>,
}

/// Callers of a batch, each with the index of its answer.
type Callers<B> = Vec<(usize, Caller<<B as Batched>::Answer>)>;

struct Caller<A> {
    answer: oneshot::Sender<Result<A, BatchError>>,
    span: Current,
}

impl<B: Batched> Batches<B> {
    pub(in crate::store) fn new(connections: Connections, turns: Turns) -> Self {
        let state = State { waiting: VecDeque::new(), next_number: 0, turns: 0, begun: 0, overdue: 0 };
        Self { connections, lane: Arc::new(Lane { turns, state: Mutex::new(state) }) }
    }

    /// Returns the connections that are used.
    pub(in crate::store) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(in crate::store) fn connections_mut(&mut self) -> &mut Connections {
        &mut self.connections
    }

    /// Returns the answer to the call.
    ///
    /// # Errors
    ///
    /// If the call was not answered.
    pub(in crate::store) async fn ask(&self, call: B::Call) -> Result<B::Answer, BatchError> {
        let (answer, mut answered) = oneshot::channel();
        let place = self.enter(call, answer);
        let received = match time::timeout(ACQUIRE_TIMEOUT, &mut answered).await {
            Ok(received) => received,
            Err(_) if place.withdraw() => {
                let error = DbErr::ConnectionAcquire(ConnAcquireErr::Timeout);
                return Err(BatchError { error, is_shared: false });
            }
            Err(_) => answered.await, // it has begun
        };
        received.unwrap_or_else(|_| lost())
    }

    /// Returns the answer to the call, which runs as a batch of one on any of these connections.
    pub(in crate::store) async fn ask_alone(
        connections: &Connections,
        call: B::Call,
    ) -> Result<B::Answer, DbErr> {
        let mut batch = B::Batch::default();
        let Ok(index) = B::add(&mut batch, call) else { return Err(no_room()) };
        let answers = connections.submit(Kind::Statements, |session| B::answer(session, batch)).await?;
        answers.get(index).cloned().ok_or_else(no_answer)
    }

    /// Queues the call. Its batch may begin at once.
    fn enter(&self, call: B::Call, answer: oneshot::Sender<Result<B::Answer, BatchError>>) -> Place<'_, B> {
        let caller = Caller { answer, span: Current::take() };
        let number = {
            let mut state = self.lane.state();
            let number = state.next_number;
            state.next_number += 1;
            state.waiting.push_back(Waiting { number, call, caller });
            number
        };
        self.begin();
        Place { lane: &self.lane, number }
    }

    /// Adds one more turn for the queue, if all others have begun and the limits allow it.
    fn begin(&self) {
        {
            let Turns { at_once, most } = self.lane.turns;
            let mut state = self.lane.state();
            let most = most.min(at_once + state.overdue);
            if state.waiting.is_empty() || state.turns > state.begun || state.turns >= most {
                return;
            }
            state.turns += 1;
        }
        self.submit_turn();
    }

    fn submit_turn(&self) {
        let observer = self.connections.observer.clone();
        let turn = Turn {
            batches: self.clone(),
            observer,
            has_begun: false,
            is_overdue: false,
            callers: Vec::new(),
            result: None,
        };
        self.connections.owners.shared.queue.push(Job::new(Box::new(turn)));
    }
}

impl<B: Batched> Clone for Batches<B> {
    fn clone(&self) -> Self {
        Self { connections: self.connections.clone(), lane: Arc::clone(&self.lane) }
    }
}

impl<B: Batched> Lane<B> {
    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // no panic leaves it inconsistent
    }

    /// Begins a turn. Takes the calls that fit into one batch, the oldest first, with their callers.
    fn take(&self) -> (B::Batch, Callers<B>) {
        let (mut batch, mut callers) = (B::Batch::default(), Vec::new());
        let mut state = self.state();
        while let Some(Waiting { number, call, caller }) = state.waiting.pop_front() {
            if caller.answer.is_closed() {
                continue;
            }
            match B::add(&mut batch, call) {
                Ok(index) => callers.push((index, caller)),
                Err(call) => {
                    state.waiting.push_front(Waiting { number, call, caller });
                    break;
                }
            }
        }
        state.begun += 1;
        (batch, callers)
    }
}

/// A position in the queue, withdrawn on drop.
struct Place<'b, B: Batched> {
    lane: &'b Lane<B>,
    number: u64,
}

impl<B: Batched> Place<'_, B> {
    /// Withdraws the call if it has not begun. Returns `true` if it had not.
    fn withdraw(&self) -> bool {
        let mut state = self.lane.state();
        let withdrawn = self.index(&state).and_then(|index| state.waiting.remove(index));
        drop(state); // dropping the call's contents may take a while
        withdrawn.is_some()
    }

    fn index(&self, state: &State<B>) -> Option<usize> {
        // Most calls in front have been answered: only older calls are gone from the front.
        if state.waiting.front().is_none_or(|oldest| oldest.number > self.number) {
            return None;
        }
        state.waiting.binary_search_by_key(&self.number, |waiting| waiting.number).ok()
    }
}

/// Withdraws the call of a caller that gave up.
impl<B: Batched> Drop for Place<'_, B> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// One batch: a job that takes its calls when a connection is available. When it ends, the next one begins.
struct Turn<B: Batched> {
    batches: Batches<B>,
    observer: Option<Observer>,
    has_begun: bool,
    is_overdue: bool,
    /// Callers of this batch, each with the index of its answer.
    callers: Callers<B>,
    result: Option<Result<Vec<B::Answer>, DbErr>>,
}

impl<B: Batched> Work for Turn<B> {
    fn is_awaited(&self) -> bool {
        !self.batches.lane.state().waiting.is_empty()
    }

    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()> {
        Box::pin(async move {
            // Yields so that tasks that are ready can join the batch. If none are ready, this does not wait.
            for _ in 0..GATHERING {
                task::yield_now().await;
                if self.batches.lane.state().waiting.len() <= 1 {
                    break;
                }
            }
            let (batch, callers) = self.batches.lane.take();
            self.callers = callers;
            self.has_begun = true;
            self.batches.begin(); // for calls that had no room
            let Some((_, first)) = self.callers.first() else { return };
            session.begin_job(self.observer.take());
            let mut answering = pin!(first.span.within(B::answer(session, batch)));
            self.result = time::timeout(OVERDUE_AFTER, &mut answering).await.ok();
            if self.result.is_none() {
                self.is_overdue = true;
                self.batches.lane.state().overdue += 1;
                self.batches.begin();
                self.result = Some(answering.await);
            }
        })
    }

    fn fail(&mut self, error: DbErr) {
        if self.callers.is_empty() {
            // No connection became free in time. Each caller gives up at its own timeout.
            if let DbErr::ConnectionAcquire(ConnAcquireErr::Timeout) = error {
                return;
            }
            let waiting = std::mem::take(&mut self.batches.lane.state().waiting);
            self.callers = waiting.into_iter().map(|waiting| (0, waiting.caller)).collect();
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
            let _ = caller.answer.send(answer.map_err(|error| BatchError { error, is_shared }));
        }
    }
}

/// Gives the next turn to the waiting calls, however the batch ended.
impl<B: Batched> Drop for Turn<B> {
    fn drop(&mut self) {
        {
            let mut state = self.batches.lane.state();
            state.begun -= usize::from(self.has_begun);
            state.overdue -= usize::from(self.is_overdue);
            let others = state.turns - 1;
            if state.waiting.is_empty() || others > state.begun {
                state.turns = others;
                return;
            }
        }
        self.batches.submit_turn();
    }
}

/// Returns the error of a call whose turn was dropped without an answer: the runtime is shutting down.
fn lost<A>() -> Result<A, BatchError> {
    Err(BatchError { error: no_answer(), is_shared: false })
}

fn no_answer() -> DbErr {
    DbErr::Custom("a batch has no answer to one of its calls".into())
}

fn no_room() -> DbErr {
    DbErr::Custom("a batch has no room for a single call".into())
}

#[cfg(test)]
mod tests;
