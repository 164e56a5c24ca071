//! Phases of a process, from its start to its end.

use tokio::sync::watch;

/// Phases of a process, in their order. Each part of the process ends in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The listeners are bound; the parts are not ready.
    Starting,
    /// All parts serve.
    Serving,
    /// Readiness is down, so that load balancers stop sending requests; requests are still served.
    Draining,
    /// The REST port closes, after requests in flight are answered.
    ClosingHttp,
    /// The gRPC port closes, after the REST port, whose requests need it in a single process.
    ClosingGrpc,
    /// Background work ends, after the ports, because it keeps API keys up to date for the last requests.
    ClosingBackground,
    /// The admin port closes last, because it reports why the others do not serve.
    ClosingAdmin,
}

/// Moves a process from phase to phase. When it is dropped, every part stops.
#[derive(Debug)]
pub(crate) struct Lifecycle(watch::Sender<Phase>);

/// Watches the phase of a process.
#[derive(Clone, Debug)]
pub(crate) struct PhaseWatch(watch::Receiver<Phase>);

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Starting))
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    pub(crate) fn watch(&self) -> PhaseWatch {
        PhaseWatch(self.0.subscribe())
    }
}

impl PhaseWatch {
    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Completes when the process is in the phase, or past it.
    pub(crate) async fn reached(mut self, phase: Phase) {
        // An error means that the process has ended, which is past every phase.
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn is_over(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_phase_is_reached_when_the_process_is_in_it_or_past_it() {
        let lifecycle = Lifecycle::new();
        lifecycle.enter(Phase::ClosingHttp);
        assert_eq!(lifecycle.watch().now(), Phase::ClosingHttp);
        assert!(is_over(lifecycle.watch().reached(Phase::Draining)));
        assert!(is_over(lifecycle.watch().reached(Phase::ClosingHttp)));
        assert!(!is_over(lifecycle.watch().reached(Phase::ClosingGrpc)));
    }

    #[test]
    fn a_process_that_is_dropped_has_reached_every_phase() {
        let watch = Lifecycle::new().watch();
        assert!(is_over(watch.reached(Phase::ClosingAdmin)));
    }
}
