//! The requests of one connection of HTTP/2.

use std::{future::Future, time::Duration};

use hyper::rt::Executor;
use tokio::{sync::watch, time::timeout};

/// Runs requests, each as a task within a deadline, and knows how many are under way.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    deadline: Duration,
    under_way: watch::Sender<u32>,
}

impl Streams {
    pub(super) fn new(deadline: Duration) -> Self {
        Self { deadline, under_way: watch::Sender::new(0) }
    }

    /// Ends when no request has been under way for so long.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut under_way = self.under_way.subscribe();
        loop {
            // Cannot fail while `self` is here, which has the sender.
            let _ = under_way.wait_for(|requests| *requests == 0).await;
            if timeout(time, under_way.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// A request that is over its deadline is reset: its answer waits for a window that does not open.
impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, request: F) {
        let counted = UnderWay::count(&self.under_way);
        let deadline = self.deadline;
        tokio::spawn(async move {
            if timeout(deadline, request).await.is_err() {
                tracing::debug!("gave up a request whose answer was not taken");
            }
            drop(counted);
        });
    }
}

/// A request under way; counted until it is dropped.
struct UnderWay(watch::Sender<u32>);

impl UnderWay {
    fn count(requests: &watch::Sender<u32>) -> Self {
        requests.send_modify(|requests| *requests = requests.saturating_add(1));
        Self(requests.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests = requests.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Instant};

    use tokio::{sync::oneshot, time::sleep};

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);
    const NEVER: Duration = Duration::from_mins(10);

    #[tokio::test]
    async fn a_connection_is_idle_from_the_end_of_its_last_request() {
        let (streams, begin) = (Streams::new(NEVER), Instant::now());
        streams.execute(sleep(SHORT));
        streams.execute(sleep(3 * SHORT));
        streams.idle_for(SHORT).await;
        assert!(begin.elapsed() >= 4 * SHORT, "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn a_connection_without_requests_is_idle_from_its_beginning() {
        let begin = Instant::now();
        Streams::new(NEVER).idle_for(SHORT).await;
        assert!(begin.elapsed() >= SHORT);
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_or_panics_counts_no_longer_than_its_deadline() {
        let streams = Streams::new(SHORT);
        let (kept, dropped) = oneshot::channel::<()>();
        streams.execute(async move {
            let _kept = kept;
            pending::<()>().await;
        });
        streams.execute(async { panic!("planted") });
        dropped.await.unwrap_err();
        streams.idle_for(SHORT).await;
    }
}
