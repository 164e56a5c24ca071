//! Graceful shutdown of a server, as its connections see it.

use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

/// Steps of a graceful shutdown, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainState {
    /// Connections stay open for further requests.
    Serving,
    /// Connections are still accepted, but each announces its close.
    Draining {
        /// Time at which the drain began.
        since: Instant,
    },
    /// The only connections still accepted are those that clients have opened before.
    Closing {
        /// Time at which the drain began.
        draining_since: Instant,
    },
}

/// Control that changes the step for all connections of a server.
#[derive(Debug)]
pub(super) struct DrainControl(watch::Sender<DrainState>);

/// Observer of the server's step.
#[derive(Clone, Debug)]
pub(super) struct DrainWatch(watch::Receiver<DrainState>);

impl DrainControl {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(DrainState::Serving))
    }

    pub(super) fn drain(&self) {
        self.0.send_replace(DrainState::Draining { since: Instant::now() });
    }

    pub(super) fn close(&self) {
        let draining_since = match *self.0.borrow() {
            DrainState::Draining { since } | DrainState::Closing { draining_since: since } => since,
            DrainState::Serving => Instant::now(),
        };
        self.0.send_replace(DrainState::Closing { draining_since });
    }

    pub(super) fn watch(&self) -> DrainWatch {
        DrainWatch(self.0.subscribe())
    }
}

impl DrainWatch {
    pub(super) fn now(&self) -> DrainState {
        *self.0.borrow()
    }

    /// Waits for the next step.
    pub(super) async fn next(&mut self) -> DrainState {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await; // the server is gone, and its connections are about to be
        }
        *self.0.borrow_and_update()
    }

    /// Waits until the closing server closes a connection that has been idle since `idle_since`.
    pub(super) async fn idle_connections_expired(mut self, idle_since: Instant, idle_grace: Duration) {
        let mut state = self.now();
        loop {
            if let DrainState::Closing { draining_since } = state {
                return sleep_until(idle_since.max(draining_since) + idle_grace).await;
            }
            state = self.next().await;
        }
    }
}
