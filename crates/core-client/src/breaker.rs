//! Circuit breaker that decides if the core is called at all.
//!
//! A slow call does not prove that the core hangs: its database may be slow, and a creation may have to wait
//! for others. So a call that is not answered within [`SUSPICION_TIMEOUT`], or whose answer is lost, only
//! raises a suspicion, and the core is sent a probe that it answers from memory: gRPC's health check, with
//! any result. The breaker opens only if no probe is answered for [`PROBE_TIMEOUT`]. Then calls in flight
//! are given up, other calls fail without being sent, and one probe at a time is sent until one is answered,
//! which closes the breaker.
//!
//! Unlike the limiter's breaker it closes at once, without a hold time, because nothing replaces the core
//! meanwhile.

use std::{
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use petstore_telemetry::metrics::{Collectors, IntCounter, IntGauge, counter, gauge};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tonic::Status;
use tower::ServiceExt;

use super::transport::{NamedTransport, TransportError, empty_call, is_caused_by};

/// Time after which an unanswered call raises the suspicion that the core hangs, unless a probe was answered
/// within that time.
const SUSPICION_TIMEOUT: Duration = Duration::from_millis(300);

/// Time without an answered probe after which the breaker opens. With [`SUSPICION_TIMEOUT`] and scheduling
/// delays, a call to a core that hangs fails within 1.2 s.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// Interval between probes while the breaker is open, so that the core's return is noticed within a second.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// Pause after a failed probe while the breaker has not been opened yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Method of the probe. Every core answers it, without credentials.
pub(super) const PROBE: &str = "/grpc.health.v1.Health/Check";

/// Circuit breaker of one transport to the core. Must be used inside a tokio runtime.
#[derive(Debug)]
pub struct CoreBreaker {
    core: NamedTransport,
    is_open: watch::Sender<bool>,
    /// `true` while a task probes the core.
    is_probed: AtomicBool,
    /// Time at which the last answered probe was sent.
    last_answered: Mutex<Option<Instant>>,
    /// 1 while it is open.
    opened: IntGauge,
    outages: IntCounter,
}

/// The core was not called, or its answer was not awaited, because it does not answer calls.
#[derive(Debug, thiserror::Error)]
#[error("the core does not answer")]
pub struct CoreNotAnswering;

impl CoreNotAnswering {
    /// Returns `true` if this led to the status.
    pub fn has_caused(status: &Status) -> bool {
        is_caused_by::<Self>(status)
    }
}

impl CoreBreaker {
    pub(super) fn new(core: NamedTransport) -> Arc<Self> {
        Arc::new(Self {
            core,
            is_open: watch::Sender::new(false),
            is_probed: AtomicBool::new(false),
            last_answered: Mutex::new(None),
            opened: gauge("petstore_core_breaker_open", "1 while calls to the core fail immediately."),
            outages: counter("petstore_core_outages_total", "Outages of the core that this gateway noticed."),
        })
    }

    /// Returns `true` if calls fail without being sent.
    pub fn is_open(&self) -> bool {
        *self.is_open.borrow()
    }

    /// Returns the call's answer, or [`CoreNotAnswering`] if the breaker is open or opens meanwhile.
    pub(super) async fn guard<T>(
        self: &Arc<Self>,
        call: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let refused = || Err(TransportError::new(CoreNotAnswering));
        if self.is_open() {
            return refused();
        }
        let call = async {
            let answer = call.await;
            if answer.is_err() {
                self.suspect();
            }
            answer
        };
        let mut call = pin!(call);
        let mut answer = timeout(SUSPICION_TIMEOUT, &mut call).await.ok();
        let mut opened = self.is_open.subscribe();
        while answer.is_none() {
            self.suspect();
            answer = tokio::select! {
                biased;
                answer = &mut call => Some(answer),
                _ = opened.wait_for(|is_open| *is_open) => Some(refused()),
                () = sleep(SUSPICION_TIMEOUT) => None,
            };
        }
        answer.unwrap_or_else(refused)
    }

    /// Starts to probe the core, unless that is already done or a recent probe was answered.
    fn suspect(self: &Arc<Self>) {
        let last_answered = *self.last_answered.lock();
        if last_answered.is_some_and(|moment| moment.elapsed() < SUSPICION_TIMEOUT) {
            return;
        }
        if !self.is_probed.swap(true, Ordering::AcqRel) {
            tokio::spawn(probe_until_answered(Arc::downgrade(self)));
        }
    }

    /// Sends one probe. Any answer is a success.
    async fn probe(&self) -> Result<(), TransportError> {
        let sent = Instant::now();
        self.core.clone().oneshot(empty_call(PROBE)).await?;
        *self.last_answered.lock() = Some(sent);
        Ok(())
    }

    /// Returns the reason why no probe is answered for [`PROBE_TIMEOUT`], or `None` if one is.
    async fn silence(&self) -> Option<String> {
        let mut cause = "no answer in time".to_owned();
        let answered = async {
            while let Err(error) = self.probe().await {
                cause = error.cause();
                sleep(RETRY_INTERVAL).await;
            }
        };
        if within_window(answered).await.is_some() { None } else { Some(cause) }
    }

    fn open(&self, cause: &str) {
        self.outages.inc();
        self.opened.set(1);
        tracing::warn!(error = cause, "the core does not answer: calls to it fail at once until it does");
        self.is_open.send_replace(true);
    }

    fn close(&self) {
        tracing::info!("the core answers again");
        self.is_open.send_replace(false);
        self.opened.set(0);
    }

    /// Returns the breaker's metrics.
    pub fn metrics(&self) -> Collectors {
        vec![Box::new(self.opened.clone()), Box::new(self.outages.clone())]
    }
}

/// Returns the result of work that takes [`PROBE_TIMEOUT`] at most. That time passes in steps, which are late
/// while this process gets too little processor time: an answer that has arrived and is not read yet does not
/// count as silence of the core.
async fn within_window<T>(work: impl Future<Output = T>) -> Option<T> {
    let window = async {
        for _ in 0..16 {
            sleep(PROBE_TIMEOUT / 16).await;
        }
    };
    tokio::select! {
        biased;
        result = work => Some(result),
        () = window => None,
    }
}

/// Probes the core until it answers or the breaker is dropped, and opens and closes the breaker meanwhile.
async fn probe_until_answered(breaker: Weak<CoreBreaker>) {
    let Some(suspected) = breaker.upgrade() else { return };
    if let Some(cause) = suspected.silence().await {
        suspected.open(&cause);
        drop(suspected);
        loop {
            sleep(PROBE_INTERVAL).await;
            let Some(open) = breaker.upgrade() else { return };
            if let Some(Ok(())) = within_window(open.probe()).await {
                open.close();
                break;
            }
        }
    }
    if let Some(breaker) = breaker.upgrade() {
        breaker.is_probed.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
