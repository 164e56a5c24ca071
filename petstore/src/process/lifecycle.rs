//! Where a process is between its start and its end.

use tokio::sync::watch;

/// The stages of a process, in the order in which it passes through them. Each part of the process stops at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The listeners are bound, the rest is not ready.
    Starting,
    /// Everything works.
    Serving,
    /// Readiness is down, so that a load balancer turns away; requests are still served.
    Draining,
    /// The REST port closes: requests in flight are finished.
    ClosingHttp,
    /// The gRPC port closes. After the REST port: gateways of other machines can turn to another core meanwhile.
    ClosingGrpc,
    /// Background work ends. After the ports: it keeps API keys current for the last requests.
    ClosingBackground,
    /// The admin port closes. Last: it tells to the end why nothing is served.
    ClosingAdmin,
}

/// Moves a process from phase to phase. When it is dropped, every part stops.
#[derive(Debug)]
pub(crate) struct Lifecycle(watch::Sender<Phase>);

/// Sees the phase that a process is in.
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

    /// Ends when the process is in the phase, or past it.
    pub(crate) async fn reached(mut self, phase: Phase) {
        // An error means that the process is gone, which is past every phase.
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
