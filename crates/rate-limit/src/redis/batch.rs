//! Batches of decisions, which share round trips. A decision is sent at once if no batch is in flight.
//! Otherwise it waits for the next batch, which takes all that wait.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::{sync::oneshot, task::yield_now};

use super::{
    connection::RedisConnection,
    error::RedisCallError,
    step::{Reply, Step},
};

/// Number of slots.
const SLOTS: usize = 1;

/// Number of times a batch yields to the scheduler while it gathers.
const GATHERING: usize = 2;

/// Maximum number of steps in one batch. Redis does nothing else meanwhile, so this bounds the wait of
/// others.
const MAX_BATCH: usize = 64;

/// Queue of steps, which are sent in order of arrival.
#[derive(Debug)]
pub(super) struct StepQueue(Arc<StepBatches>);

#[derive(Debug)]
struct StepBatches {
    connection: RedisConnection,
    state: Mutex<BatchState>,
}

#[derive(Debug, Default)]
struct BatchState {
    queue: VecDeque<QueuedStep>,
    /// Slots that are taken.
    slots: usize,
}

#[derive(Debug)]
struct QueuedStep {
    step: Step,
    answer: oneshot::Sender<Result<Reply, RedisCallError>>,
}

impl StepQueue {
    pub(super) fn new(connection: RedisConnection) -> Self {
        Self(Arc::new(StepBatches { connection, state: Mutex::default() }))
    }

    pub(super) fn connection(&self) -> &RedisConnection {
        &self.0.connection
    }

    /// Runs the step. Must be called inside a tokio runtime. If the future is dropped before the step was
    /// sent, it is not sent.
    pub(super) async fn run(&self, step: Step) -> Result<Reply, RedisCallError> {
        let (answer, reply) = oneshot::channel();
        if self.0.enqueue(QueuedStep { step, answer }) {
            // A separate task, because a caller may go away while others depend on the batch.
            tokio::spawn(BatchSlot { shared: Arc::clone(&self.0), is_taken: true }.carry());
        }
        reply.await.unwrap_or(Err(RedisCallError::Unreachable)) // the task ended with its runtime
    }
}

impl StepBatches {
    /// Puts a step into the queue. Returns `true` if it takes a slot, which the caller has to start.
    fn enqueue(&self, queued: QueuedStep) -> bool {
        let mut state = self.state.lock();
        state.queue.push_back(queued);
        let takes_slot = state.slots < SLOTS;
        state.slots += usize::from(takes_slot);
        takes_slot
    }
}

impl BatchState {
    /// Takes the next batch from the queue, without steps whose callers have given up.
    fn gather(&mut self) -> Vec<QueuedStep> {
        let mut batch = Vec::new();
        while batch.len() < MAX_BATCH
            && let Some(queued) = self.queue.pop_front()
        {
            if !queued.answer.is_closed() {
                batch.push(queued);
            }
        }
        batch
    }
}

/// Slot that is taken by one batch after the other, until the queue is empty. However its task ends, it is
/// free then.
struct BatchSlot {
    shared: Arc<StepBatches>,
    is_taken: bool,
}

impl BatchSlot {
    /// Sends batches and delivers their answers.
    async fn carry(mut self) {
        while let Some(batch) = self.gather().await {
            let (steps, callers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.step, queued.answer)).unzip();
            match self.shared.connection.run(&steps).await {
                Ok(replies) => {
                    for (caller, reply) in callers.into_iter().zip(replies) {
                        let _ = caller.send(reply); // an error: the caller has given up
                    }
                }
                Err(error) => {
                    for caller in callers {
                        let _ = caller.send(Err(error));
                    }
                }
            }
        }
    }

    /// Takes the next batch. Returns `None` if the queue is empty, which frees the slot.
    async fn gather(&mut self) -> Option<Vec<QueuedStep>> {
        for _ in 0..GATHERING {
            if self.shared.state.lock().queue.is_empty() {
                break;
            }
            yield_now().await;
            if self.shared.state.lock().queue.len() <= 1 {
                break;
            }
        }
        let mut state = self.shared.state.lock();
        let batch = state.gather();
        if batch.is_empty() {
            state.slots -= 1;
            self.is_taken = false;
            return None;
        }
        Some(batch)
    }
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        if self.is_taken {
            self.shared.state.lock().slots -= 1; // its runtime ended
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RedisDeadlines, RedisSettings};

    fn shared() -> Arc<StepBatches> {
        let urls = vec!["redis://127.0.0.1:1".parse().unwrap()];
        let settings =
            RedisSettings { urls, key_prefix: "pet:", deadlines: RedisDeadlines::default(), clock: None };
        StepQueue::new(RedisConnection::new(settings).unwrap()).0
    }

    fn queued() -> (QueuedStep, oneshot::Receiver<Result<Reply, RedisCallError>>) {
        let (answer, reply) = oneshot::channel();
        (QueuedStep { step: Step::probe("pet:", "probe"), answer }, reply)
    }

    #[tokio::test]
    async fn a_batch_is_bounded_and_omits_callers_that_have_given_up() {
        let (shared, mut replies) = (shared(), Vec::new());
        for number in 0..2 * MAX_BATCH {
            let (queued, reply) = queued();
            assert_eq!(shared.enqueue(queued), number == 0, "there is one slot");
            replies.push(reply);
        }
        replies.truncate(MAX_BATCH + 1);
        let mut state = shared.state.lock();
        assert_eq!([(); 3].map(|()| state.gather().len()), [MAX_BATCH, 1, 0]);
    }

    #[tokio::test]
    async fn a_slot_is_free_however_its_task_ends() {
        let shared = shared();
        let (first, _reply) = queued();
        assert!(shared.enqueue(first));
        drop(BatchSlot { shared: Arc::clone(&shared), is_taken: true });
        assert_eq!(shared.state.lock().slots, 0);
        shared.state.lock().queue.clear();
        let (second, _) = queued();
        assert!(shared.enqueue(second));
        let mut slot = BatchSlot { shared: Arc::clone(&shared), is_taken: true };
        assert!(slot.gather().await.is_none(), "its caller has given up");
        drop(slot);
        assert_eq!(shared.state.lock().slots, 0);
    }
}
