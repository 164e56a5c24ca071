//! Calls of one kind that wait are answered together.
//!
//! The first call goes at once. Those that come while it is under way wait, and go together once it has
//! ended: nobody waits for company. No call joins work that is under way, so each sees whatever was committed
//! before it was made.
//!
//! A call that is given up while it waits is withdrawn. One that was begun is finished, as every job is.

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

/// How long a batch may take until one more connection is put to work for those that wait: longer than it
/// takes unless it waits for a lock, a disk or a network. It is timed once for each batch, not for each call:
/// a timer that is due before all others wakes the runtime's driver, which is a system call.
const OVERDUE_AFTER: Duration = Duration::from_millis(20);

/// Turns of the scheduler in which whoever is about to call comes along, unless there is only one call.
const GATHERING: usize = 3;

/// A kind of call that is answered together with others.
pub(in crate::store) trait Batched: Send + Sync + 'static {
    /// One call.
    type Call: Clone + Send + 'static;
    /// What a call is answered with.
    type Answer: Clone + Send + 'static;
    /// Calls that are answered together: as many as is good.
    type Batch: Default + Send + 'static;

    /// Adds the call to the batch, and tells which of its answers is for this call. Gives the call back if
    /// the batch has no room; an empty one has.
    ///
    /// # Errors
    ///
    /// The call.
    fn add(batch: &mut Self::Batch, call: Self::Call) -> Result<usize, Self::Call>;

    /// The answers of the batch, in its order.
    fn answer(session: &Session, batch: Self::Batch) -> BoxFuture<'_, Result<Vec<Self::Answer>, DbErr>>;
}

/// Why a call was not answered.
#[derive(Debug)]
pub(in crate::store) struct BatchError {
    pub(in crate::store) error: DbErr,
    /// There were others in the batch: it may have failed because of one of them.
    pub(in crate::store) is_shared: bool,
}

/// How many batches are under way at once.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Turns {
    /// So many always.
    pub(in crate::store) at_once: usize,
    /// So many where batches take long.
    pub(in crate::store) most: usize,
}

/// Answers calls of one kind together, on these connections. Clones share the calls.
pub(in crate::store) struct Batches<B: Batched> {
    connections: Connections,
    lane: Arc<Lane<B>>,
}

/// Where the calls wait.
struct Lane<B: Batched> {
    turns: Turns,
    state: Mutex<State<B>>,
}

struct State<B: Batched> {
    /// In the order in which they came: their numbers ascend.
    waiting: VecDeque<Waiting<B>>,
    next_number: u64,
    /// Turns that have begun, and at most one that has not: it takes along whoever waits until then.
    turns: usize,
    begun: usize,
    /// Turns that are taking longer than [`OVERDUE_AFTER`]: one more may begin for each.
    overdue: usize,
}

struct Waiting<B: Batched> {
    number: u64,
    call: B::Call,
    caller: Caller<B::Answer>,
}

/// Who waits for a batch, and for which of its answers.
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

    /// The connections that are used.
    pub(in crate::store) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(in crate::store) fn connections_mut(&mut self) -> &mut Connections {
        &mut self.connections
    }

    /// The answer to the call.
    ///
    /// # Errors
    ///
    /// Why there is none.
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

    /// The answer to the call, which is a batch of its own on any of these connections.
    pub(in crate::store) async fn ask_alone(
        connections: &Connections,
        call: B::Call,
    ) -> Result<B::Answer, DbErr> {
        let mut batch = B::Batch::default();
        let Ok(index) = B::add(&mut batch, call) else { return Err(no_room()) };
        let answers = connections.submit(Kind::Statements, |session| B::answer(session, batch)).await?;
        answers.get(index).cloned().ok_or_else(no_answer)
    }

    /// Lets the call wait for its turn, which may be now.
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

    /// One more turn for those that wait, if all have begun and there may be more.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // no panic leaves it half changed
    }

    /// Begins a turn: takes the calls that go together, the oldest first, and who waits for which answer.
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

/// A place in a lane; given up when dropped.
struct Place<'b, B: Batched> {
    lane: &'b Lane<B>,
    number: u64,
}

impl<B: Batched> Place<'_, B> {
    /// Takes the call back, if it has not begun.
    fn withdraw(&self) -> bool {
        let mut state = self.lane.state();
        let withdrawn = self.index(&state).and_then(|index| state.waiting.remove(index));
        drop(state); // what the call holds may take a while to go
        withdrawn.is_some()
    }

    fn index(&self, state: &State<B>) -> Option<usize> {
        // Most have been answered: only older calls are gone from the front.
        if state.waiting.front().is_none_or(|oldest| oldest.number > self.number) {
            return None;
        }
        state.waiting.binary_search_by_key(&self.number, |waiting| waiting.number).ok()
    }
}

/// A caller that gives up leaves no call behind.
impl<B: Batched> Drop for Place<'_, B> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// One batch: a job that decides what it does when a connection is there. When it ends, the next one begins.
struct Turn<B: Batched> {
    batches: Batches<B>,
    observer: Option<Observer>,
    has_begun: bool,
    is_overdue: bool,
    /// Those of this batch, and which answer is for whom.
    callers: Callers<B>,
    result: Option<Result<Vec<B::Answer>, DbErr>>,
}

impl<B: Batched> Work for Turn<B> {
    fn is_awaited(&self) -> bool {
        !self.batches.lane.state().waiting.is_empty()
    }

    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()> {
        Box::pin(async move {
            // Whoever can be run now may come along: it costs no wait where nobody can.
            for _ in 0..GATHERING {
                task::yield_now().await;
                if self.batches.lane.state().waiting.len() <= 1 {
                    break;
                }
            }
            let (batch, callers) = self.batches.lane.take();
            self.callers = callers;
            self.has_begun = true;
            self.batches.begin(); // for those that had no room
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
            // No connection within the time: each caller gives up when its own has passed.
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
            // An error is that of a caller who has given up.
            let _ = caller.answer.send(answer.map_err(|error| BatchError { error, is_shared }));
        }
    }
}

/// However a batch ends, those that wait have the next turn.
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

/// Its turn has gone without a word: the runtime is shutting down.
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
