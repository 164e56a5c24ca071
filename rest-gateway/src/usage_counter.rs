//! Request counts per account, by key and minute, counts of the requests that belong to no account, by
//! minute, and a sample of refusals. They are in memory while a request is answered, and reported to the core
//! every few seconds. A request needs a hash and a lock that is seldom contended, never a call.

mod ledger;
mod refusals;

use std::{future::Future, sync::Arc, time::Duration};

use petstore_caller::client_address::ClientAddress;
use petstore_clock::{Clock, Day, Minute};
use petstore_core_client::{ReportAnswers, TracedTransport, call_within, failure_text};
use petstore_key_cache::KnownKey;
use petstore_proto::{
    internal::v1::{GetUsageRequest, Refusal, UsageDay, usage_service_client::UsageServiceClient},
    rpc::GET_USAGE,
};
use petstore_telemetry::metrics::{Collectors, IntCounter, counter};
use tokio::time::sleep;

use self::ledger::{Ledger, Unreported};
pub(crate) use self::refusals::refusal_by;
use crate::{
    core_calls::CoreCalls,
    error::ApiError,
    request::{Caller, uuid_v7},
};

/// Maximum duration of one report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of days in an account's usage, today included.
const SHOWN_DAYS: i64 = 30;

/// Counter of requests, which reports its counts.
pub(crate) struct UsageCounter {
    core: UsageServiceClient<TracedTransport>,
    clock: Clock,
    ledger: Ledger,
    refused: IntCounter,
    failed: IntCounter,
    answers: ReportAnswers,
}

impl UsageCounter {
    /// Creates a counter at zero. Its reports are those of a new run, so their numbers begin again.
    pub(crate) fn new(core: TracedTransport, clock: Clock) -> Self {
        Self {
            core: UsageServiceClient::new(core),
            ledger: Ledger::new(uuid_v7(&clock).to_string()), // a name of this run
            clock,
            refused: counter(
                "petstore_usage_reports_refused_total",
                "Usage reports that the core refused, whose counts are lost.",
            ),
            failed: counter(
                "petstore_usage_reports_failed_total",
                "Usage reports that failed; their counts are sent again.",
            ),
            answers: ReportAnswers::new("reports of usage: they are not counted"),
        }
    }

    pub(crate) fn metrics(&self) -> Collectors {
        vec![Box::new(self.refused.clone()), Box::new(self.failed.clone())]
    }

    /// Counts a request with the key by the status of its answer.
    pub(crate) fn count(&self, key: &Arc<KnownKey>, status: http::StatusCode, is_get_pet: bool) {
        self.ledger.count(key, Minute::containing(self.clock.now()).0, status.as_u16(), is_get_pet);
    }

    /// Counts a request that belongs to no account by the status of its answer.
    pub(crate) fn count_without_account(&self, status: http::StatusCode) {
        self.ledger.count_without_account(Minute::containing(self.clock.now()).0, status.as_u16());
    }

    /// Counts a request of a client at this address that was refused now, and keeps it if there is room.
    pub(crate) fn note_refusal(&self, refusal: Refusal, address: ClientAddress) {
        let now = self.clock.now();
        let refusal = Refusal { refused_at_ms: now.as_i64(), ..refusal };
        self.ledger.refusals.note(Minute::containing(now).0, refusal, address);
    }

    /// Reports every 5 s until `shutdown`, and then once more. Counts since the last report are lost when the
    /// process is killed.
    pub(crate) async fn keep_reported(&self, shutdown: impl Future<Output = ()>) {
        let pace = async {
            loop {
                sleep(Duration::from_secs(5)).await;
                self.report().await;
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = pace => {}
        }
        self.report().await; // this may be one that the core has not answered before
        self.report().await;
    }

    /// Reports the counts. A report that the core does not answer is sent again the next time. Counts made
    /// meanwhile wait for that, because otherwise the work would not end under load.
    pub(crate) async fn report(&self) {
        let mut is_last = false;
        while !is_last && let Some(report) = self.ledger.next_report() {
            let number = report.number;
            is_last = report.requests.len() < ledger::MAX_ROWS;
            let mut core = self.core.clone();
            let send = |report| async move { core.report_usage(report).await };
            match self.answers.judge(call_within(REPORT_TIMEOUT, report, send).await) {
                Ok(taken) => {
                    self.refused.inc_by(taken.is_none().into());
                    self.ledger.answered(number);
                }
                Err(status) => {
                    self.failed.inc();
                    tracing::debug!(error = failure_text(&status), "could not report usage");
                    return;
                }
            }
        }
    }

    /// Returns the counts of the caller's account in the last [`SHOWN_DAYS`] days, today first, days without
    /// requests included. Counts that other gateways have not reported yet are missing.
    pub(crate) async fn days(&self, core: &CoreCalls, caller: &Caller) -> Result<Vec<UsageDay>, ApiError> {
        let account_id = caller.account_id;
        let today = Day::containing(self.clock.now()).0;
        let oldest = today - SHOWN_DAYS + 1;
        // Before the call: nothing is missing or counted twice
        let unreported = self.ledger.unreported(account_id);
        let question =
            GetUsageRequest { account_id, since_day: oldest, reporter: self.ledger.reporter.clone() };
        let answer = core.call(GET_USAGE, question, caller, |core, it| core.usage.get_usage(it)).await?;

        let mut days: Vec<_> = (oldest..=today).map(|day| UsageDay { day, ..UsageDay::default() }).collect();
        for counted in answer.days.iter().chain(&unreported.missing_from(answer.last_report)) {
            if let Some(day) = days.iter_mut().find(|day| day.day == counted.day) {
                ledger::add(day, counted);
            }
        }
        days.reverse();
        Ok(days)
    }
}

impl Unreported {
    /// Returns the counts that the core lacks if the given report is the last one it has.
    fn missing_from(self, last_report: i64) -> Vec<UsageDay> {
        match self.number.cmp(&last_report) {
            std::cmp::Ordering::Greater => [self.sent, self.waiting].concat(),
            std::cmp::Ordering::Equal => self.waiting,
            std::cmp::Ordering::Less => Vec::new(), // a later report had it all
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::OnceLock};

    use http::{Response, StatusCode};
    use petstore_core_client::CoreTransport;
    use petstore_proto::internal::v1::Plan;
    use petstore_rate_limit::Quota;
    use tonic::{Code, Status, body::Body};
    use tower::{BoxError, ServiceExt, service_fn};

    use super::*;

    fn key() -> Arc<KnownKey> {
        let quota = Quota { per_minute: 60, per_day: 1_000 };
        Arc::new(KnownKey::new("k".into(), 7, Plan::Free, quota))
    }

    /// Returns the number of reports that are sent to a core with this answer, and the numbers counted as
    /// refused and as failed.
    async fn reported_twice(answer: Code) -> (u64, u64, u64) {
        let sent = counter("sent", "Reports that the core was sent.");
        let core = {
            let sent = sent.clone();
            service_fn(move |_: http::Request<Body>| {
                sent.inc();
                async move { Ok::<Response<Body>, Infallible>(Status::new(answer, "").into_http()) }
            })
        };
        let core = CoreTransport::new(core.map_err(|never| -> BoxError { match never {} }));
        let usage = UsageCounter::new(core.into(), Clock::system());
        usage.count(&key(), StatusCode::OK, false);
        usage.report().await;
        usage.report().await;
        (sent.get(), usage.refused.get(), usage.failed.get())
    }

    #[tokio::test]
    async fn a_permanently_refused_report_is_dropped_and_counted() {
        for code in [Code::InvalidArgument, Code::OutOfRange] {
            assert_eq!(reported_twice(code).await, (1, 1, 0), "{code}");
        }
    }

    #[tokio::test]
    async fn counts_made_during_a_report_are_in_the_next() {
        let sent = counter("sent", "Reports that the core was sent.");
        let usage = Arc::new(OnceLock::<UsageCounter>::new());
        let core = {
            let (sent, usage) = (sent.clone(), Arc::clone(&usage));
            service_fn(move |_: http::Request<Body>| {
                sent.inc();
                if sent.get() < 100 {
                    usage.get().expect("it is made").count(&key(), StatusCode::OK, false);
                }
                async move { Ok::<Response<Body>, Infallible>(Status::new(Code::OutOfRange, "").into_http()) }
            })
        };
        let core = CoreTransport::new(core.map_err(|never| -> BoxError { match never {} }));
        let usage = usage.get_or_init(|| UsageCounter::new(core.into(), Clock::system()));
        usage.count(&key(), StatusCode::OK, false);
        for reports in 1..=3 {
            usage.report().await;
            assert_eq!(sent.get(), reports);
        }
    }

    #[tokio::test]
    async fn a_report_that_fails_is_counted_and_sent_again() {
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Unimplemented, Code::Internal] {
            assert_eq!(reported_twice(code).await, (2, 0, 2), "{code}");
        }
    }
}
