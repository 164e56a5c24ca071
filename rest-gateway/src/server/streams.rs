//! Requests of one HTTP/2 connection.

use std::{future::Future, time::Duration};

use hyper::rt::Executor;
use tokio::{sync::watch, time::timeout};

/// Executor of requests, which runs each as a task with a deadline, and counts them.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    deadline: Duration,
    requests: watch::Sender<Requests>,
}

/// Requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    in_flight: u32,
    has_been_any: bool,
}

impl Streams {
    pub(super) fn new(deadline: Duration) -> Self {
        Self { deadline, requests: watch::Sender::new(Requests::default()) }
    }

    /// Waits for a period of length `time` without a request in flight.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut requests = self.requests.subscribe();
        loop {
            // Cannot fail while `self` is here, which has the sender.
            let _ = requests.wait_for(|requests| requests.in_flight == 0).await;
            if timeout(time, requests.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for the first request.
    pub(super) async fn used(&self) {
        let _ = self.requests.subscribe().wait_for(|requests| requests.has_been_any).await; // as above
    }
}

/// Resets a request at its deadline: its answer waits for a window that does not open.
impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, request: F) {
        let counted = InFlight::count(&self.requests);
        let deadline = self.deadline;
        tokio::spawn(async move {
            if timeout(deadline, request).await.is_err() {
                tracing::debug!("gave up a request whose answer was not taken");
            }
            drop(counted);
        });
    }
}

/// A request in flight, until it is dropped.
struct InFlight(watch::Sender<Requests>);

impl InFlight {
    fn count(requests: &watch::Sender<Requests>) -> Self {
        requests.send_modify(|requests| {
            requests.in_flight = requests.in_flight.saturating_add(1);
            requests.has_been_any = true;
        });
        Self(requests.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.send_modify(|requests| requests.in_flight = requests.in_flight.saturating_sub(1));
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
