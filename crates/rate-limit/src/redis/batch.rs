//! Batches of decisions, which share round trips. A decision is sent at once if no batch is in flight.
//! Otherwise it waits for the next batch, which takes all that wait, up to its bound. A queue of many batches
//! sends several together.

use std::{mem, sync::Arc};

use futures_util::future::join_all;
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

/// If more than four batches wait, a quarter of them is sent together. One by one, the last of a thousand
/// steps would wait for sixteen round trips. A gateway that shares its processor takes milliseconds for each,
/// so the decision would be late although Redis is fast. All at once, Redis and the gateway would wait for
/// each other.
const QUARTER: usize = 4;

/// Maximum number of batches that are sent together. Redis takes a few milliseconds for them.
const MAX_BATCHES: usize = 16;

/// Queue of steps, which are sent in order of arrival.
pub(super) struct StepQueue {
    connection: Arc<RedisConnection>,
    /// Queue of the task that sends. The first step starts the task, and so does one after its end: by a
    /// panic, or with its runtime.
    waiting: Mutex<mpsc::UnboundedSender<QueuedStep>>,
}

type Answer = oneshot::Sender<Result<Reply, RedisCallError>>;

type QueuedStep = (Step, Answer);

impl StepQueue {
    pub(super) fn new(connection: Arc<RedisConnection>) -> Self {
        let (no_task, _) = mpsc::unbounded_channel();
        Self { connection, waiting: Mutex::new(no_task) }
    }

    /// Runs the step. Must be called inside a tokio runtime. If the future is dropped before the step was
    /// sent, it is not sent.
    pub(super) async fn run(&self, step: Step) -> Result<Reply, RedisCallError> {
        let (answer, reply) = oneshot::channel();
        self.enqueue((step, answer));
        reply.await.unwrap_or_else(|_| Err(RedisCallError::Unreachable("the process ends".into())))
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
    while let Some(mut steps) = gather(&mut queue).await {
        // The usual case, which needs no further allocation.
        if steps.len() <= MAX_BATCH {
            send(&connection, steps).await;
            continue;
        }
        let mut batches = Vec::new();
        while !steps.is_empty() {
            let rest = steps.split_off(steps.len().min(MAX_BATCH));
            batches.push(send(&connection, mem::replace(&mut steps, rest)));
        }
        join_all(batches).await;
    }
}

/// Sends one batch, and delivers its answers.
async fn send(connection: &RedisConnection, batch: Vec<QueuedStep>) {
    let (steps, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    match connection.run(&steps).await {
        Ok(replies) => {
            for (caller, reply) in callers.into_iter().zip(replies) {
                let _ = caller.send(reply); // an error: the caller has given up
            }
        }
        Err(error) => {
            for caller in callers {
                let _ = caller.send(Err(error.clone()));
            }
        }
    }
}

/// Waits for the next steps, and takes those of the next batches, without steps whose callers have given up.
/// Returns `None` once the queue is dropped.
async fn gather(queue: &mut mpsc::UnboundedReceiver<QueuedStep>) -> Option<Vec<QueuedStep>> {
    loop {
        let mut steps = vec![queue.recv().await?];
        for _ in 0..GATHERING {
            yield_now().await;
            let quarter = (steps.len() + queue.len()) / QUARTER;
            let taken = quarter.clamp(MAX_BATCH, MAX_BATCH * MAX_BATCHES);
            while steps.len() < taken
                && let Ok(queued) = queue.try_recv()
            {
                steps.push(queued);
            }
            if steps.len() == 1 {
                break;
            }
        }
        steps.retain(|(_, answer)| !answer.is_closed());
        if !steps.is_empty() {
            return Some(steps);
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
        StepQueue::new(Arc::new(RedisConnection::new(settings).unwrap()))
    }

    type Reply = oneshot::Receiver<Result<super::Reply, RedisCallError>>;

    /// Returns a queue of steps, and their callers.
    fn waiting(count: usize) -> (mpsc::UnboundedReceiver<QueuedStep>, Vec<Reply>) {
        let (sender, queue) = mpsc::unbounded_channel();
        let enqueue = |_| {
            let (answer, reply) = oneshot::channel();
            sender.send((Step::probe("pet:", "probe"), answer)).unwrap();
            reply
        };
        let replies = (0..count).map(enqueue).collect();
        (queue, replies)
    }

    #[tokio::test]
    async fn a_batch_is_bounded_and_omits_callers_that_have_given_up() {
        let (mut queue, mut replies) = waiting(3 * MAX_BATCH);
        replies.truncate(MAX_BATCH + 1);
        for expected in [Some(MAX_BATCH), Some(1), None] {
            assert_eq!(gather(&mut queue).await.map(|batch| batch.len()), expected);
        }
    }

    #[tokio::test]
    async fn of_many_steps_a_quarter_is_sent_together() {
        let (mut queue, _replies) = waiting(40 * MAX_BATCH);
        for expected in [10 * MAX_BATCH, 30 * MAX_BATCH / QUARTER] {
            assert_eq!(gather(&mut queue).await.map(|steps| steps.len()), Some(expected));
        }
        let (mut queue, _replies) = waiting(100 * MAX_BATCH);
        assert_eq!(gather(&mut queue).await.map(|steps| steps.len()), Some(MAX_BATCHES * MAX_BATCH));
    }

    #[tokio::test]
    async fn steps_are_sent_again_after_the_task_has_ended() {
        let queue = unreachable();
        for _ in 0..2 {
            *queue.waiting.lock() = mpsc::unbounded_channel().0;
            let answer = queue.run(Step::probe("pet:", "probe")).await;
            assert!(matches!(answer, Err(RedisCallError::Unreachable(_))));
        }
    }
}
