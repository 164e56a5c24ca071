//! Batches of decisions, which share round trips. A decision is sent at once if no batch is in flight.
//! Otherwise it waits for the next batch, which takes all that wait.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::yield_now,
};

use super::{
    connection::RedisConnection,
    error::RedisCallError,
    step::{Reply, Step},
};

/// Number of times a batch yields to the scheduler while it gathers.
const GATHERING: usize = 2;

/// Maximum number of steps in one batch. Redis does nothing else meanwhile, so this bounds the wait of
/// others.
const MAX_BATCH: usize = 64;

/// Queue of steps, which are sent in order of arrival, one batch at a time.
#[derive(Debug)]
pub(super) struct StepQueue {
    connection: Arc<RedisConnection>,
    /// Queue of the task that sends. The first step starts the task, and so does one after its end: by a
    /// panic, or with its runtime.
    waiting: Mutex<mpsc::UnboundedSender<QueuedStep>>,
}

type Answer = oneshot::Sender<Result<Reply, RedisCallError>>;

type QueuedStep = (Step, Answer);

impl StepQueue {
    pub(super) fn new(connection: RedisConnection) -> Self {
        let (no_task, _) = mpsc::unbounded_channel();
        Self { connection: Arc::new(connection), waiting: Mutex::new(no_task) }
    }

    pub(super) fn connection(&self) -> &RedisConnection {
        &self.connection
    }

    /// Runs the step. Must be called inside a tokio runtime. If the future is dropped before the step was
    /// sent, it is not sent.
    pub(super) async fn run(&self, step: Step) -> Result<Reply, RedisCallError> {
        let (answer, reply) = oneshot::channel();
        self.enqueue((step, answer));
        reply.await.unwrap_or(Err(RedisCallError::Unreachable)) // the task ended
    }

    fn enqueue(&self, queued: QueuedStep) {
        let mut waiting = self.waiting.lock();
        if let Err(mpsc::error::SendError(queued)) = waiting.send(queued) {
            let (sender, queue) = mpsc::unbounded_channel();
            let _ = sender.send(queued); // its receiver is here
            *waiting = sender;
            tokio::spawn(carry(Arc::clone(&self.connection), queue));
        }
    }
}

/// Sends batches and delivers their answers, until the queue is dropped.
async fn carry(connection: Arc<RedisConnection>, mut queue: mpsc::UnboundedReceiver<QueuedStep>) {
    while let Some(batch) = gather(&mut queue).await {
        let (steps, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        match connection.run(&steps).await {
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

/// Waits for the next batch, and takes it without steps whose callers have given up. Returns `None` once the
/// queue is dropped.
async fn gather(queue: &mut mpsc::UnboundedReceiver<QueuedStep>) -> Option<Vec<QueuedStep>> {
    loop {
        let mut batch = vec![queue.recv().await?];
        for _ in 0..GATHERING {
            yield_now().await;
            while batch.len() < MAX_BATCH
                && let Ok(queued) = queue.try_recv()
            {
                batch.push(queued);
            }
            if batch.len() == 1 {
                break;
            }
        }
        batch.retain(|(_, answer)| !answer.is_closed());
        if !batch.is_empty() {
            return Some(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RedisDeadlines, RedisSettings};

    fn unreachable() -> StepQueue {
        let urls = vec!["redis://127.0.0.1:1".parse().unwrap()];
        let settings =
            RedisSettings { urls, key_prefix: "pet:", deadlines: RedisDeadlines::default(), clock: None };
        StepQueue::new(RedisConnection::new(settings).unwrap())
    }

    #[tokio::test]
    async fn a_batch_is_bounded_and_omits_callers_that_have_given_up() {
        let (sender, mut queue) = mpsc::unbounded_channel();
        let mut replies = Vec::new();
        for _ in 0..3 * MAX_BATCH {
            let (answer, reply) = oneshot::channel();
            sender.send((Step::probe("pet:", "probe"), answer)).unwrap();
            replies.push(reply);
        }
        replies.truncate(MAX_BATCH + 1);
        drop(sender);
        for expected in [Some(MAX_BATCH), Some(1), None] {
            assert_eq!(gather(&mut queue).await.map(|batch| batch.len()), expected);
        }
    }

    #[tokio::test]
    async fn steps_are_sent_again_after_the_task_has_ended() {
        let queue = unreachable();
        for _ in 0..2 {
            *queue.waiting.lock() = mpsc::unbounded_channel().0;
            let answer = queue.run(Step::probe("pet:", "probe")).await;
            assert_eq!(answer.map(drop), Err(RedisCallError::Unreachable));
        }
    }
}
