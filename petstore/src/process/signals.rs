//! The signals that end a process, and the one that has it read its files again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT (Ctrl-C), which from now on do nothing but to be received here.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next signal.
    pub(crate) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// SIGHUP, which from now on does nothing but to be received here.
#[derive(Debug)]
pub(crate) struct Hangups(Signal);

impl Hangups {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Ends when there is one.
    pub(crate) async fn received(&mut self) {
        self.0.recv().await;
    }
}
