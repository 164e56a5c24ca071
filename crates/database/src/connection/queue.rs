//! Work on a connection, the caller that waits for it, and the queue in which it waits for an owner.

use std::{collections::VecDeque, mem, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use petstore_telemetry::traces::Current;
use sea_orm::{ConnAcquireErr, DbErr};
use tokio::{sync::oneshot, time::Instant};

use super::{Observer, session::Session};

/// A job whose result type only its caller knows.
pub(super) struct Job {
    pub(super) work: Box<dyn Work>,
    /// Time at which its caller began to wait.
    pub(super) submitted_at: Instant,
    /// Its place in the order of arrival.
    number: u64,
}

/// A [`TypedJob`] of any result.
pub(super) trait Work: Send {
    /// Returns `true` if a caller still waits.
    fn is_awaited(&self) -> bool;

    /// Does the work. The session records whether it is usable afterwards.
    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()>;

    /// Sets the result of work that was not begun, or not finished.
    fn fail(&mut self, error: DbErr);

    /// Sends the result to the caller.
    fn answer(self: Box<Self>);
}

impl Job {
    pub(super) fn new(work: Box<dyn Work>) -> Self {
        Self { work, submitted_at: Instant::now(), number: 0 }
    }
}

/// A job with the types of its result, which [`Job`] erases.
pub(super) struct TypedJob<F, T, E> {
    observer: Option<Observer>,
    work: Option<F>,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
    /// Span of the caller, which encloses the statements.
    span: Current,
}

impl<F, T, E> TypedJob<F, T, E> {
    pub(super) fn new(observer: Option<Observer>, work: F, answer: oneshot::Sender<Result<T, E>>) -> Self {
        Self { observer, work: Some(work), result: None, answer, span: Current::take() }
    }
}

impl<F, T, E> Work for TypedJob<F, T, E>
where
    T: Send + 'static,
    E: From<DbErr> + Send + 'static,
    F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
{
    fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()> {
        session.begin_job(self.observer.take());
        let Self { work, result, span, .. } = self;
        Box::pin(span.within(async move {
            if let Some(work) = work.take() {
                *result = Some(work(session).await);
            }
        }))
    }

    fn fail(&mut self, error: DbErr) {
        self.result = Some(Err(error.into()));
    }

    fn answer(self: Box<Self>) {
        let Self { result, answer, .. } = *self;
        if let Some(result) = result {
            let _ = answer.send(result); // the caller has given up
        }
    }
}

/// Jobs in order of arrival, or idle owners. While an owner is idle, no more jobs wait than others make
/// connections for.
#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    /// Waiting jobs, whose numbers ascend.
    waiting: VecDeque<Job>,
    next_number: u64,
    /// Number of owners that make a connection, for the oldest jobs.
    connecting: usize,
    /// Idle owners. The last one gets the next job. So no more connections are in use than are needed, and
    /// the others expire.
    idle: Vec<Idle>,
    is_closed: bool,
}

/// An owner that waits for a job.
struct Idle {
    has_connection: bool,
    next: oneshot::Sender<Job>,
}

/// The next step of an owner.
pub(super) enum Next {
    Do(Job),
    /// There is no job yet. The next one arrives on this channel, which closes with the queue.
    Wait(oneshot::Receiver<Job>),
    End,
}

/// A position in the queue, withdrawn on drop.
pub(super) struct Place {
    queue: Arc<Queue>,
    number: u64,
}

/// A job for which an owner makes a connection, until this is dropped. Meanwhile the job waits in the queue.
pub(super) struct Claim<'q> {
    queue: &'q Queue,
    number: u64,
}

impl Claim<'_> {
    /// Returns the job, unless another owner has it or its caller gave up.
    pub(super) fn take(self) -> Option<Job> {
        self.queue.take(self.number)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.queue.0.lock().connecting -= 1;
    }
}

impl Queue {
    /// Hands the job to an idle owner, or queues it.
    pub(super) fn submit(queue: &Arc<Self>, job: Job) -> Option<Place> {
        let number = queue.push(job)?;
        Some(Place { queue: Arc::clone(queue), number })
    }

    /// Submits a job that is never withdrawn. Returns its number if it was queued.
    pub(super) fn push(&self, job: Job) -> Option<u64> {
        self.place(job, false)
    }

    /// Puts back the job of an owner that has no connection. Returns `None` if the job needs none: an idle
    /// owner that has one gets the job, or it is refused because the queue is closed.
    pub(super) fn claim(&self, job: Job) -> Option<Claim<'_>> {
        let number = self.place(job, true)?;
        Some(Claim { queue: self, number })
    }

    /// Hands the job to an idle owner, one with a connection if the job `is_claimed`; or queues it by its
    /// number, which is a new one unless the job is claimed. Returns the number if it was queued.
    fn place(&self, mut job: Job, is_claimed: bool) -> Option<u64> {
        let mut state = self.0.lock();
        if state.is_closed {
            drop(state);
            refuse(job);
            return None;
        }
        if !is_claimed {
            job.number = state.next_number;
            state.next_number += 1;
        }
        while let Some(owner) = state.idle.pop_if(|owner| owner.has_connection || !is_claimed) {
            match owner.next.send(job) {
                Ok(()) => return None,
                Err(returned) => job = returned, // its runtime is shutting down
            }
        }
        let number = job.number;
        let index = state.waiting.partition_point(|waiting| waiting.number < number);
        state.waiting.insert(index, job);
        state.connecting += usize::from(is_claimed);
        Some(number)
    }

    /// Returns the next step of an owner. One that has a connection does the oldest job. Any other leaves as
    /// many jobs as others make connections for.
    pub(super) fn next(&self, has_connection: bool) -> Next {
        let mut state = self.0.lock();
        let index = if has_connection { 0 } else { state.connecting };
        if let Some(job) = state.waiting.remove(index) {
            return Next::Do(job);
        }
        if state.is_closed {
            return Next::End;
        }
        let (next, job) = oneshot::channel();
        let owner = Idle { has_connection, next };
        if has_connection {
            state.idle.push(owner);
        } else {
            state.idle.insert(0, owner);
        }
        Next::Wait(job)
    }

    /// Takes the job with this number, unless an owner has it or it was withdrawn.
    fn take(&self, number: u64) -> Option<Job> {
        let mut state = self.0.lock();
        let index = state.waiting.binary_search_by_key(&number, |job| job.number).ok()?;
        state.waiting.remove(index)
    }

    /// Refuses waiting and new jobs, and ends every owner.
    pub(super) fn close(&self) {
        let (waiting, idle) = {
            let mut state = self.0.lock();
            state.is_closed = true;
            (mem::take(&mut state.waiting), mem::take(&mut state.idle))
        };
        drop(idle);
        for job in waiting {
            refuse(job);
        }
    }
}

fn refuse(mut job: Job) {
    job.work.fail(DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed));
    job.work.answer();
}

impl Place {
    /// Withdraws the job if no owner has it yet. Returns `true` if it was withdrawn.
    pub(super) fn withdraw(&self) -> bool {
        self.queue.take(self.number).is_some() // dropping the job's contents may take a while
    }
}

/// Withdraws the job of a caller that gave up.
impl Drop for Place {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &Session) -> BoxFuture<'_, Result<(), DbErr>> {
        Box::pin(async { Ok(()) })
    }

    fn submit(queue: &Queue) -> (u64, oneshot::Receiver<Result<(), DbErr>>) {
        let (answer, answered) = oneshot::channel();
        let job = TypedJob::new(None, nothing, answer);
        (queue.push(Job::new(Box::new(job))).unwrap(), answered)
    }

    fn next(queue: &Queue, has_connection: bool) -> Option<Job> {
        if let Next::Do(job) = queue.next(has_connection) { Some(job) } else { None }
    }

    #[test]
    fn a_job_for_which_nobody_connects_any_more_goes_to_the_next_owner() {
        let queue = Queue::default();
        let ((first, _first), (second, _second)) = (submit(&queue), submit(&queue));
        let [fails, connects] = [(), ()].map(|()| queue.claim(next(&queue, false).unwrap()).unwrap());
        assert!(next(&queue, false).is_none(), "an owner connects for each");
        drop(connects);
        assert_eq!(next(&queue, true).unwrap().number, first, "the oldest is done first");
        assert!(fails.take().is_none(), "another owner does it");
        assert_eq!(next(&queue, false).unwrap().number, second);
    }
}
