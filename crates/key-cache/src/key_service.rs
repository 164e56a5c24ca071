//! Calls to the core's key service, each with a deadline. [`KeyError::CoreAway`] means that the core did not
//! answer, or answered with an error.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use petstore_caller::api_key::KeyDigest;
use petstore_clock::{Clock, UnixMillis};
use petstore_core_client::{
    ReportAnswers, RetryBudget, TracedTransport, call_within, failure_text, is_transport_failure,
    named_reason, retry_once,
};
use petstore_proto::{
    internal::v1::{
        KeyUse, ListChangesRequest, ListChangesResponse, ReportBanResponse, ReportUseRequest,
        ResolveKeysRequest, ResolveKeysResponse, key_service_client::KeyServiceClient,
    },
    v1::ErrorReason,
};
use petstore_telemetry::parts::{Fault, FaultCause, PartState};
use tokio::time::Instant;
use tonic::Status;

use super::{KeyError, bans::ImposedBan};

/// Deadline of one call.
const DEADLINE: Duration = Duration::from_secs(1);

/// Deadline of a call for changes: longer than a core waits for its database, and than it takes to detect
/// that a core does not answer.
const CHANGES_DEADLINE: Duration = Duration::from_secs(2);

/// The core's key service, and the state of the core.
pub(super) struct KeyService {
    core: TracedTransport,
    client: KeyServiceClient<TracedTransport>,
    /// Methods that the gateway needs the core to have.
    methods: &'static [&'static str],
    clock: Clock,
    /// Milliseconds by which the core's clock is ahead of this gateway's; negative if it is behind.
    ahead_ms: AtomicI64,
    retries: RetryBudget,
    answered_once: AtomicBool,
    /// `true` if it failed to answer when it was last asked for changes.
    is_away: AtomicBool,
    /// Fault that it showed when it was last asked for changes.
    failure: Mutex<Option<FaultCause>>,
    /// `true` if the core lacked a method when it was last asked for changes.
    is_too_old: AtomicBool,
    /// `true` if the log says that the core does not list changes, though it can be reached.
    was_refused: AtomicBool,
    /// `true` if the log says that the core does not resolve keys, though it can be reached.
    lookups_fail: AtomicBool,
    ban_reports: ReportAnswers,
    use_reports: ReportAnswers,
}

impl KeyService {
    pub(super) fn new(core: TracedTransport, methods: &'static [&'static str], clock: Clock) -> Self {
        Self {
            client: KeyServiceClient::new(core.clone()),
            core,
            methods,
            clock,
            ahead_ms: AtomicI64::new(0),
            retries: RetryBudget::default(),
            answered_once: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            failure: Mutex::default(),
            is_too_old: AtomicBool::new(false),
            was_refused: AtomicBool::new(false),
            lookups_fail: AtomicBool::new(false),
            ban_reports: ReportAnswers::new("a report of a ban: it is lost if this gateway stops"),
            use_reports: ReportAnswers::new("a report of when API keys were last used"),
        }
    }

    /// Returns the fault of the core, as this gateway sees it. It is down until it has been ready once and
    /// while it lacks a method. Later it is degraded, because other gateways would have the same fault. A
    /// core that refuses this gateway is the fault that an operator can mend, even while others are silent.
    pub(super) fn fault(&self) -> Option<Fault> {
        let (failure, is_reached) = (*self.failure.lock(), self.answered_once.load(Ordering::Relaxed));
        let is_too_old = self.is_too_old.load(Ordering::Relaxed);
        let cause = if is_too_old {
            Some(FaultCause::CoreLacksMethods)
        } else {
            let silence = self.core.breaker.is_open().then_some(FaultCause::CoreUnreachable);
            self.core.refusals.recent().or(silence).or(failure)
        };
        let cause = match cause {
            None | Some(FaultCause::CoreUnreachable) if !is_reached => FaultCause::CoreNotReached,
            cause => cause?,
        };
        let state = if is_reached && !is_too_old { PartState::Degraded } else { PartState::Down };
        Some(Fault::new(state, cause))
    }

    /// Returns `true` if it listed changes when it was last asked.
    pub(super) fn is_up(&self) -> bool {
        self.answered_once.load(Ordering::Relaxed) && !self.is_away.load(Ordering::Relaxed)
    }

    /// Returns the time by the core's clock, by which keys expire.
    pub(super) fn now(&self) -> UnixMillis {
        let now = self.clock.now();
        UnixMillis(now.0.saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed)))
    }

    /// Notes the core's time of an answer, if it gives one, to a question that was asked at `asked_at`.
    fn note_time(&self, core_now_ms: Option<i64>, asked_at: UnixMillis) {
        if let Some(core_now) = core_now_ms {
            // A time between the question and the answer is no difference: the call took that long.
            let ahead_of = |moment: UnixMillis| core_now.saturating_sub(moment.as_i64());
            let ahead = ahead_of(self.clock.now()).max(0).min(ahead_of(asked_at));
            self.ahead_ms.store(ahead, Ordering::Relaxed);
        }
    }

    /// Returns the core's data on at most 1,000 keys. While the core is known to be away it is not asked, so
    /// that no request waits for the deadline. [`Self::list_changes`] detects its return.
    pub(super) async fn resolve(&self, digests: &[KeyDigest]) -> Result<ResolveKeysResponse, KeyError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(KeyError::CoreAway);
        }
        let asked_at = self.clock.now();
        let digests = digests.iter().map(|digest| digest.0.to_vec()).collect();
        let answer = self.ask(ResolveKeysRequest { digests, ..ResolveKeysRequest::default() }).await;
        let fails = answer.as_ref().is_err_and(|status| !is_transport_failure(status));
        let failed_before = self.lookups_fail.swap(fails, Ordering::Relaxed);
        answer.inspect(|answer| self.note_time(answer.now_ms, asked_at)).map_err(|status| {
            let error = failure_text(&status);
            if fails && !failed_before {
                tracing::warn!(error, "the core does not resolve API keys");
            } else {
                tracing::debug!(error, "could not resolve API keys");
            }
            KeyError::CoreAway
        })
    }

    /// Returns the core's data on the key with this identifier.
    pub(super) async fn find(&self, key_id: &str) -> Result<ResolveKeysResponse, KeyError> {
        let question = ResolveKeysRequest { key_id: key_id.to_owned(), ..ResolveKeysRequest::default() };
        self.ask(question).await.map_err(|status| {
            tracing::debug!(error = failure_text(&status), "could not find an API key");
            KeyError::CoreAway
        })
    }

    async fn ask(&self, question: ResolveKeysRequest) -> Result<ResolveKeysResponse, Status> {
        let attempts = retry_once(&self.retries, Instant::now() + DEADLINE, |left| {
            let mut client = self.client.clone();
            call_within(left, question.clone(), |question| async move { client.resolve_keys(question).await })
        });
        attempts.await
    }

    pub(super) async fn list_changes(&self, after_revision: i64) -> Result<ListChangesResponse, KeyError> {
        let asked_at = self.clock.now();
        // Once more if the answer is lost: one of several cores that stops does not make the core away.
        let attempts = retry_once(&self.retries, Instant::now() + CHANGES_DEADLINE, |left| {
            let (mut client, question) = (self.client.clone(), ListChangesRequest { after_revision });
            call_within(left, question, |question| async move { client.list_changes(question).await })
        });
        let answer = attempts.await;
        if let Ok(answer) = &answer {
            self.note_time(answer.now_ms, asked_at);
            self.note_methods(&answer.methods); // first: `answered_once` makes the gateway ready
        }
        self.is_away.store(answer.is_err(), Ordering::Relaxed);
        let answered_before = self.answered_once.fetch_or(answer.is_ok(), Ordering::Release);
        *self.failure.lock() = match &answer {
            Ok(answer) => answer.takes_no_writes.then_some(FaultCause::CoreDatabaseNotWritable),
            Err(status) => Some(cause_of(status)),
        };
        // Logs one line when the core begins to refuse and one when it is back, instead of one a second. The
        // breaker of the transport logs that the core does not answer.
        match &answer {
            Ok(_) => {
                if self.was_refused.swap(false, Ordering::Relaxed) || !answered_before {
                    tracing::info!("the core answers");
                }
            }
            Err(status) if is_transport_failure(status) => {
                tracing::debug!(error = failure_text(status), "could not ask for changes");
            }
            Err(status) => {
                if !self.was_refused.swap(true, Ordering::Relaxed) {
                    let error = failure_text(status);
                    tracing::warn!(error, "cannot fetch account changes from the core");
                }
            }
        }
        answer.map_err(|_| KeyError::CoreAway)
    }

    /// Notes the methods that the core has. Logs one line when it lacks some, and one when it has them all.
    fn note_methods(&self, methods: &[String]) {
        let is_missing = |method: &&str| !methods.iter().any(|has| has == method);
        let missing: Vec<_> = self.methods.iter().copied().filter(is_missing).collect();
        let was_too_old = self.is_too_old.swap(!missing.is_empty(), Ordering::Relaxed);
        match (was_too_old, missing.is_empty()) {
            (false, false) => tracing::error!(
                missing = missing.join(", "),
                "the core lacks methods that this gateway needs: upgrade cores before gateways"
            ),
            (true, true) => tracing::info!("the core has all methods that this gateway needs"),
            _ => {}
        }
    }

    /// Reports a ban, and returns the resulting ban, or `None` if the core refuses this report and would
    /// refuse it again.
    pub(super) async fn report_ban(&self, ban: &ImposedBan) -> Result<Option<ReportBanResponse>, KeyError> {
        let mut client = self.client.clone();
        let report = |report| async move { client.report_ban(report).await };
        self.ban_reports.judge(call_within(DEADLINE, ban.to_core(), report).await).map_err(|status| {
            tracing::debug!(error = failure_text(&status), "could not report a ban");
            KeyError::CoreAway
        })
    }

    /// Reports uses, in batches, until the core does not answer or the deadline passes. Uses that are refused
    /// or not sent are dropped, because "last used" is only precise to the day.
    pub(super) async fn report(&self, uses: &[KeyUse]) {
        let deadline = Instant::now() + DEADLINE;
        for batch in uses.chunks(1_000) {
            let (mut client, batch) = (self.client.clone(), ReportUseRequest { uses: batch.to_vec() });
            let report = |report| async move { client.report_use(report).await };
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(status) = self.use_reports.judge(call_within(left, batch, report).await) {
                tracing::debug!(error = failure_text(&status), "could not report when API keys were used");
                return;
            }
        }
    }
}

/// Returns the reason why the core did not list changes.
fn cause_of(failure: &Status) -> FaultCause {
    if is_transport_failure(failure) {
        FaultCause::CoreUnreachable
    } else if named_reason(failure) == Some(ErrorReason::Unavailable) {
        FaultCause::CoreDatabaseUnreachable
    } else {
        FaultCause::CoreFails
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Request;
    use petstore_core_client::CoreTransport;
    use petstore_proto::ERROR_DOMAIN;
    use petstore_test_servers::Logged;
    use tonic::{Code, body::Body};
    use tonic_types::{ErrorDetails, StatusExt};
    use tower::{BoxError, ServiceExt, service_fn};
    use tracing::Level;

    use super::*;
    use crate::testing::{CoreDouble, METHODS};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Core {
        Present,
        Refusing,
        Away,
        /// The connection breaks with the next call, and another core answers later ones.
        Stopping,
        /// A proxy in the core's place answers.
        Replaced,
        /// The token is not this core's.
        Distrusting,
        WithoutDatabase,
        WithoutWrites,
    }
    use Core::{Away, Distrusting, Present, Refusing, Replaced, Stopping, WithoutDatabase, WithoutWrites};

    /// Returns the service of a core whose state the test sets.
    fn service() -> (KeyService, Arc<Mutex<Core>>) {
        let state = Arc::new(Mutex::new(Present));
        let (core, seen) = (CoreDouble::new(), Arc::clone(&state));
        let core = service_fn(move |request: Request<Body>| {
            let state = *seen.lock().unwrap();
            if state == Stopping {
                *seen.lock().unwrap() = Present;
            }
            let core = core.clone();
            async move {
                match state {
                    Present | WithoutWrites => {
                        core.state().takes_no_writes = state == WithoutWrites;
                        core.transport().oneshot(request).await
                    }
                    Refusing => Ok(Status::internal("a fault").into_http()),
                    Away | Stopping => Err(BoxError::from("the connection broke")),
                    Replaced => Ok(Status::unavailable("no core is ready").into_http()),
                    Distrusting => {
                        Ok(Status::unauthenticated("the service token is not this core's").into_http())
                    }
                    WithoutDatabase => {
                        let details = ErrorDetails::with_error_info("UNAVAILABLE", ERROR_DOMAIN, []);
                        Ok(Status::with_error_details(Code::Unavailable, "no store", details).into_http())
                    }
                }
            }
        });
        let (clock, _) = Clock::manual(UnixMillis(1_795_200_000_000));
        (KeyService::new(CoreTransport::new(core).into(), &METHODS, clock), state)
    }

    #[tokio::test]
    async fn a_core_that_refuses_to_list_changes_is_logged_once_and_so_is_its_return() {
        let (service, core) = service();
        let logged = Logged::of("key_service");
        for (state, level) in [
            (Present, Level::INFO),
            (Present, Level::TRACE),
            (Refusing, Level::WARN),
            (Refusing, Level::TRACE),
            (Away, Level::DEBUG),
            (Present, Level::INFO),
            (Away, Level::DEBUG),
            (Present, Level::TRACE),
        ] {
            *core.lock().unwrap() = state;
            let listed = service.list_changes(0).await;
            assert_eq!(listed.is_ok(), state == Present);
            let expected = Some(level).filter(|level| *level != Level::TRACE);
            assert_eq!(logged.levels(), Vec::from_iter(expected), "{listed:?}");
        }
    }

    #[tokio::test]
    async fn the_fault_of_the_core_is_the_one_that_it_shows() {
        use PartState::{Degraded, Down};
        let (service, core) = service();
        assert_eq!(service.fault(), Some(Fault::new(Down, FaultCause::CoreNotReached)), "not asked yet");
        let distrusted = Some(Fault::new(Degraded, FaultCause::CoreTokenRefused));
        for (state, expected) in [
            (Away, Some(Fault::new(Down, FaultCause::CoreNotReached))),
            (Replaced, Some(Fault::new(Down, FaultCause::CoreNotReached))),
            (WithoutDatabase, Some(Fault::new(Down, FaultCause::CoreDatabaseUnreachable))),
            (Present, None),
            (Away, Some(Fault::new(Degraded, FaultCause::CoreUnreachable))),
            (Replaced, Some(Fault::new(Degraded, FaultCause::CoreUnreachable))),
            (WithoutDatabase, Some(Fault::new(Degraded, FaultCause::CoreDatabaseUnreachable))),
            (Refusing, Some(Fault::new(Degraded, FaultCause::CoreFails))),
            (WithoutWrites, Some(Fault::new(Degraded, FaultCause::CoreDatabaseNotWritable))),
            (Distrusting, distrusted),
            (Present, distrusted), // another core behind the same address
            (Away, distrusted),
        ] {
            *core.lock().unwrap() = state;
            let _ = service.list_changes(0).await;
            assert_eq!(service.fault(), expected, "{state:?}");
        }
    }

    #[tokio::test]
    async fn the_core_is_not_away_while_one_of_several_stops() {
        let (service, core) = service();
        let stop = || *core.lock().unwrap() = Stopping;
        stop();
        assert!(service.list_changes(0).await.is_ok());
        assert_eq!(service.fault(), None);
        stop();
        assert!(service.resolve(&[]).await.is_ok());
        stop();
        assert!(service.find("a-key").await.is_ok());
    }

    #[tokio::test]
    async fn a_core_that_does_not_resolve_keys_is_logged_once() {
        let (service, core) = service();
        let logged = Logged::of("key_service");
        for (state, level) in [
            (Away, Level::DEBUG),
            (Refusing, Level::WARN),
            (Refusing, Level::DEBUG),
            (Away, Level::DEBUG),
            (Refusing, Level::WARN),
        ] {
            *core.lock().unwrap() = state;
            assert_eq!(service.resolve(&[]).await.map(drop), Err(KeyError::CoreAway));
            assert_eq!(logged.levels(), [level]);
        }
    }

    #[tokio::test]
    async fn a_core_that_lacks_methods_is_logged_once_and_so_is_its_upgrade() {
        let (service, _) = service();
        let logged = Logged::of("key_service");
        let all = METHODS.map(str::to_owned);
        for (methods, expected) in
            [(&all[..], &[][..]), (&all[1..], &[Level::ERROR]), (&[], &[]), (&all, &[Level::INFO])]
        {
            service.note_methods(methods);
            assert_eq!(logged.levels(), expected);
        }
    }
}
