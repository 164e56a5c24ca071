//! Where a server is on its way to its end, as its connections see it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

/// The stages of a server, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
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

/// Moves a server from stage to stage.
#[derive(Debug)]
pub(super) struct Stages(watch::Sender<Stage>, Arc<AtomicBool>);

/// Sees the stage that a server is in.
#[derive(Clone, Debug)]
pub(super) struct StageWatch {
    stage: watch::Receiver<Stage>,
    is_draining: Arc<AtomicBool>,
}

impl Stages {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Stage::Serving), Arc::default())
    }

    pub(super) fn drain(&self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.send_replace(Stage::Draining { since: Instant::now() });
    }

    pub(super) fn close(&self) {
        self.1.store(true, Ordering::Relaxed);
        let draining_since = match *self.0.borrow() {
            Stage::Draining { since } | Stage::Closing { draining_since: since } => since,
            Stage::Serving => Instant::now(),
        };
        self.0.send_replace(Stage::Closing { draining_since });
    }

    pub(super) fn watch(&self) -> StageWatch {
        StageWatch { stage: self.0.subscribe(), is_draining: Arc::clone(&self.1) }
    }
}

impl StageWatch {
    pub(super) fn now(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Set when the server has left its first stage: what every answer asks for.
    pub(super) fn is_draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_draining)
    }

    /// The next stage, when it comes.
    pub(super) async fn next(&mut self) -> Stage {
        if self.stage.changed().await.is_err() {
            std::future::pending::<()>().await; // the server is gone, and its connections are about to be
        }
        *self.stage.borrow_and_update()
    }

    /// Ends when a connection that has said nothing since this moment is to be closed, because the server is closing.
    pub(super) async fn over_for_the_silent(mut self, silent_since: Instant, last_word: Duration) {
        let mut stage = self.now();
        loop {
            if let Stage::Closing { draining_since } = stage {
                return sleep_until(silent_since.max(draining_since) + last_word).await;
            }
            stage = self.next().await;
        }
    }
}
