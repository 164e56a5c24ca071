//! The graceful shutdown of a server, as its connections see it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

/// How far a server is with its graceful shutdown, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainState {
    /// Connections stay open for further requests.
    Serving,
    /// Connections are still accepted, but each is told that it is to end.
    Draining {
        /// When this began.
        since: Instant,
    },
    /// No connection is accepted any more.
    Closing {
        /// When the drain began.
        draining_since: Instant,
    },
}

/// Changes the state for all connections of a server.
#[derive(Debug)]
pub(super) struct DrainControl(watch::Sender<DrainState>, Arc<AtomicBool>);

/// Sees the state of the server.
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

    /// Set when the server does not only serve any more: what every answer asks for.
    pub(super) fn is_draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_draining)
    }

    /// The next state, when it comes.
    pub(super) async fn next(&mut self) -> DrainState {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await; // the server is gone, and its connections are about to be
        }
        *self.state.borrow_and_update()
    }

    /// Ends when a connection that has said nothing since this moment is to be closed, because the server is
    /// closing.
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
