//! Batches of waiting decisions, which share round trips.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::oneshot, task::yield_now};

use super::{connection::Connection, error::RedisCallError, reply::Reply, step::Step};

/// Maximum number of steps in one call. Redis does nothing else meanwhile, so this bounds the wait of others.
const LARGEST: usize = 64;

/// Number of yields before a call, unless only one step waits. They let tasks that are about to ask join the
/// batch. Each yield serves the data that has arrived on sockets meanwhile, and takes no longer than that.
const GATHERING: usize = 2;

/// Maximum number of calls in flight.
const CALLS: usize = 1;

/// Queue of steps. A step is sent at once if no call is in flight. Steps that arrive meanwhile are sent
/// together with the next call, in order of arrival.
#[derive(Debug)]
pub(super) struct Batcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connection: Connection,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Number of tasks that send waiting steps, each one call at a time.
    senders: usize,
}

#[derive(Debug)]
struct Waiting {
    step: Step,
    answer: oneshot::Sender<Result<Reply, RedisCallError>>,
}

impl Batcher {
    pub(super) fn new(connection: Connection) -> Self {
        Self(Arc::new(Shared { connection, queue: Mutex::default() }))
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// Runs the step. Must be called inside a tokio runtime. If the future is dropped before the step was
    /// sent, it is not sent.
    pub(super) async fn run(&self, step: Step) -> Result<Reply, RedisCallError> {
        let (answer, reply) = oneshot::channel();
        if self.0.enqueue(Waiting { step, answer }) {
            // A separate task, because a caller may go away while others depend on the call.
            tokio::spawn(Sender { shared: Arc::clone(&self.0), is_counted: true }.send_all());
        }
        reply.await.unwrap_or(Err(RedisCallError::Unreachable)) // the sender ended with its runtime
    }
}

impl Shared {
    /// Returns `true` if a sender has to be started.
    fn enqueue(&self, waiting: Waiting) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(waiting);
        let is_needed = queue.senders < CALLS;
        queue.senders += usize::from(is_needed);
        is_needed
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Returns the next batch, without steps whose callers have given up.
    fn next(&mut self) -> Vec<Waiting> {
        let mut batch = Vec::new();
        while batch.len() < LARGEST
            && let Some(waiting) = self.waiting.pop_front()
        {
            if !waiting.answer.is_closed() {
                batch.push(waiting);
            }
        }
        batch
    }
}

/// Task that sends waiting steps. It is no longer counted when it ends, however it ends.
struct Sender {
    shared: Arc<Shared>,
    is_counted: bool,
}

impl Sender {
    async fn send_all(mut self) {
        while let Some(batch) = self.gather().await {
            let (steps, answers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|waiting| (waiting.step, waiting.answer)).unzip();
            match self.shared.connection.run(&steps).await {
                Ok(replies) => {
                    for (answer, reply) in answers.into_iter().zip(replies) {
                        let _ = answer.send(reply); // an error: the caller has given up
                    }
                }
                Err(error) => {
                    for answer in answers {
                        let _ = answer.send(Err(error));
                    }
                }
            }
        }
    }

    async fn gather(&mut self) -> Option<Vec<Waiting>> {
        for _ in 0..GATHERING {
            if self.shared.queue().waiting.is_empty() {
                break;
            }
            yield_now().await;
            if self.shared.queue().waiting.len() <= 1 {
                break;
            }
        }
        self.next()
    }

    /// Returns the next batch, or `None` if the queue is empty. After `None` the next step has to start
    /// another sender.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut queue = self.shared.queue();
        let batch = queue.next();
        if batch.is_empty() {
            queue.senders -= 1;
            self.is_counted = false;
            return None;
        }
        Some(batch)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.is_counted {
            self.shared.queue().senders -= 1; // its runtime ended
        }
    }
}
