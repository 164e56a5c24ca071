//! Graceful shutdown of a server, as its connections see it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

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
pub(super) struct DrainControl(watch::Sender<DrainState>, Arc<AtomicBool>);

/// Observer of the server's step.
#[derive(Clone, Debug)]
pub(super) struct DrainWatch {
    state: watch::Receiver<DrainState>,
    is_draining: Arc<AtomicBool>,
}

impl DrainControl {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(DrainState::Serving), Arc::default())
    }

    pub(super) fn drain(&self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.send_replace(DrainState::Draining { since: Instant::now() });
    }

    pub(super) fn close(&self) {
        self.1.store(true, Ordering::Relaxed);
        let draining_since = match *self.0.borrow() {
            DrainState::Draining { since } | DrainState::Closing { draining_since: since } => since,
            DrainState::Serving => Instant::now(),
        };
        self.0.send_replace(DrainState::Closing { draining_since });
    }

    pub(super) fn watch(&self) -> DrainWatch {
        DrainWatch { state: self.0.subscribe(), is_draining: Arc::clone(&self.1) }
    }
}

impl DrainWatch {
    pub(super) fn now(&self) -> DrainState {
        *self.state.borrow()
    }

    /// Returns a flag that is `true` once the drain has begun. Every answer reads it.
    pub(super) fn is_draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_draining)
    }

    /// Waits for the next step.
    pub(super) async fn next(&mut self) -> DrainState {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await; // the server is gone, and its connections are about to be
        }
        *self.state.borrow_and_update()
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
