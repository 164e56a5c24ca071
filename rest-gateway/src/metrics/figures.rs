//! Requests of this gateway since it started and in the last five minutes, for the console. They come from
//! the metrics, so counting them costs a request nothing.

use std::{collections::VecDeque, future::Future, time::Duration};

use parking_lot::Mutex;
use petstore_clock::{Clock, UnixMillis};
use petstore_proto::v1::ErrorReason;
use petstore_telemetry::metrics::{
    Bucket, Collector as _, HistogramVec, IntCounterVec, IntGauge, LabelPair, MetricFamily,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Metrics;

/// Length of the recent period.
const RECENT: Duration = Duration::from_mins(5);

/// Interval of the records from which the recent period is computed: it may be longer by as much.
const RECORD_INTERVAL: Duration = Duration::from_secs(30);

/// Counts and durations of this gateway's answers.
#[derive(Debug)]
pub(crate) struct Figures {
    durations: HistogramVec,
    requests: IntCounterVec,
    active: IntGauge,
    clock: Clock,
    started: UnixMillis,
    /// Totals of the recent period, oldest first.
    records: Mutex<VecDeque<(UnixMillis, Totals)>>,
}

/// Answers until a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Totals {
    all: u64,
    succeeded: u64,
    /// Answers with 4xx, including 429.
    client_errors: u64,
    limited: u64,
    server_errors: u64,
    /// Answers within each of the histogram's bounds.
    within: Vec<u64>,
}

impl Figures {
    pub(crate) fn new(metrics: &Metrics, clock: Clock) -> Self {
        let Metrics { durations, requests, active, .. } = metrics;
        let (durations, requests, active) = (durations.clone(), requests.clone(), active.clone());
        let started = clock.now();
        Self { durations, requests, active, clock, started, records: Mutex::default() }
    }

    /// Records the totals every [`RECORD_INTERVAL`] until `shutdown`.
    pub(crate) async fn keep_recorded(&self, shutdown: impl Future<Output = ()>) {
        let pace = async {
            loop {
                sleep(RECORD_INTERVAL).await;
                self.record();
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = pace => {}
        }
    }

    fn record(&self) {
        let (now, totals) = (self.clock.now(), self.totals().1);
        let mut records = self.records.lock();
        records.push_back((now, totals));
        while records.get(1).is_some_and(|(at, _)| *at <= now.minus(RECENT)) {
            records.pop_front();
        }
    }

    /// Returns the figures in JSON.
    pub(crate) fn body(&self) -> Value {
        let (bounds, totals) = self.totals();
        let since = self.clock.now().minus(RECENT);
        let records = self.records.lock();
        let before = records.iter().rev().find(|(at, _)| *at <= since).map(|(_, totals)| totals);
        let recent = before.map_or_else(|| totals.clone(), |before| totals.since(before));
        json!({
            "startTime": self.started.to_string(),
            "inFlight": self.active.get(),
            "sinceStart": totals.body(&bounds),
            "lastFiveMinutes": recent.body(&bounds),
        })
    }

    /// Returns the bounds of durations in seconds, and the totals until now.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter of requests is a whole number"
    )]
    fn totals(&self) -> (Vec<f64>, Totals) {
        let (mut bounds, mut totals) = (Vec::new(), Totals::default());
        for metric in self.durations.collect().iter().flat_map(MetricFamily::get_metric) {
            let histogram = metric.get_histogram();
            let count = histogram.get_sample_count();
            let class = metric.get_label().iter().find(|label| label.name() == "status_class");
            totals.all += count;
            match class.map(LabelPair::value) {
                Some("2xx") => totals.succeeded += count,
                Some("4xx") => totals.client_errors += count,
                Some("5xx") => totals.server_errors += count,
                _ => {} // a redirect of the documentation
            }
            let buckets = histogram.get_bucket();
            totals.within.resize(buckets.len(), 0);
            for (sum, bucket) in totals.within.iter_mut().zip(buckets) {
                *sum += bucket.cumulative_count();
            }
            bounds = buckets.iter().map(Bucket::upper_bound).collect();
        }
        for metric in self.requests.collect().iter().flat_map(MetricFamily::get_metric) {
            let code = metric.get_label().iter().find(|label| label.name() == "code");
            let reason = code.and_then(|code| ErrorReason::named(code.value()));
            if reason.is_some_and(|reason| reason.code().http == http::StatusCode::TOO_MANY_REQUESTS) {
                totals.limited += metric.get_counter().get_value() as u64;
            }
        }
        (bounds, totals)
    }
}

impl Totals {
    /// Returns the answers since an earlier moment.
    fn since(&self, earlier: &Self) -> Self {
        let within = self.within.iter().enumerate();
        let before = |index: usize| earlier.within.get(index).copied().unwrap_or_default();
        Self {
            all: self.all.saturating_sub(earlier.all),
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            client_errors: self.client_errors.saturating_sub(earlier.client_errors),
            limited: self.limited.saturating_sub(earlier.limited),
            server_errors: self.server_errors.saturating_sub(earlier.server_errors),
            within: within.map(|(index, count)| count.saturating_sub(before(index))).collect(),
        }
    }

    fn body(&self, bounds: &[f64]) -> Value {
        let quantile = |share| self.quantile(bounds, share);
        json!({
            "requests": self.all,
            "byStatus": {
                "2xx": self.succeeded,
                "4xx": self.client_errors.saturating_sub(self.limited),
                "429": self.limited,
                "5xx": self.server_errors,
            },
            "p50": quantile(0.5),
            "p99": quantile(0.99),
        })
    }

    /// Returns the duration in seconds that this share of the answers did not exceed, by a straight line
    /// within its bucket; `None` without answers. Beyond the last bound it is that bound.
    #[expect(clippy::cast_precision_loss, reason = "more than 2⁵³ requests are not counted in practice")]
    fn quantile(&self, bounds: &[f64], share: f64) -> Option<f64> {
        let wanted = share * self.all as f64;
        let (mut below, mut before) = (0.0, 0);
        for (&bound, &count) in bounds.iter().zip(&self.within) {
            if count > before && count as f64 >= wanted {
                let part = (wanted - before as f64) / (count - before) as f64;
                return Some(below + (bound - below) * part);
            }
            (below, before) = (bound, count);
        }
        (self.all > 0).then_some(below)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;
    use crate::{metrics::RequestOutcome, operation::Operation};

    fn answered(metrics: &Metrics, status: u16, reason: Option<ErrorReason>, took: Duration) {
        let operation = &Operation::find(&http::Method::GET, "/v1/pets");
        let (scheme, status, plan, client_left) =
            ("http", StatusCode::from_u16(status).unwrap(), None, false);
        metrics.answered(&RequestOutcome { operation, scheme, status, reason, plan, took, client_left });
    }

    #[test]
    fn answers_are_counted_by_status_and_429_apart() {
        let (clock, _) = Clock::manual(UnixMillis::from_secs(1_800_000_000));
        let metrics = Metrics::default();
        let figures = Figures::new(&metrics, clock);
        let none = json!({
            "requests": 0,
            "byStatus": { "2xx": 0, "4xx": 0, "429": 0, "5xx": 0 },
            "p50": null,
            "p99": null,
        });
        assert_eq!(figures.body()["sinceStart"], none);
        let took = Duration::from_micros(1_500);
        for (status, reason) in [
            (200, None),
            (401, Some(ErrorReason::MissingApiKey)),
            (404, Some(ErrorReason::PetNotFound)),
            (429, Some(ErrorReason::RateLimited)),
            (429, Some(ErrorReason::ApiKeyBanned)),
            (503, Some(ErrorReason::Unavailable)),
        ] {
            answered(&metrics, status, reason, took);
        }
        let body = figures.body();
        assert_eq!(body["sinceStart"]["requests"], 6);
        assert_eq!(body["sinceStart"]["byStatus"], json!({ "2xx": 1, "4xx": 2, "429": 2, "5xx": 1 }));
        assert_eq!(body["lastFiveMinutes"], body["sinceStart"], "the gateway is younger");
        assert_eq!((&body["startTime"], &body["inFlight"]), (&json!("2027-01-15T08:00:00Z"), &json!(0)));
    }

    #[test]
    fn the_last_five_minutes_forget_what_was_before() {
        let (clock, hand) = Clock::manual(UnixMillis::from_secs(1_800_000_000));
        let metrics = Metrics::default();
        let figures = Figures::new(&metrics, clock);
        answered(&metrics, 503, Some(ErrorReason::Unavailable), Duration::from_secs(2));
        for _ in 0..40 {
            figures.record();
            hand.advance(RECORD_INTERVAL);
        }
        assert!(figures.records.lock().len() <= 12);
        for _ in 0..3 {
            answered(&metrics, 200, None, Duration::from_micros(500));
        }
        let body = figures.body();
        assert_eq!(body["sinceStart"]["requests"], 4);
        assert_eq!(body["lastFiveMinutes"]["byStatus"], json!({ "2xx": 3, "4xx": 0, "429": 0, "5xx": 0 }));
        assert!(body["lastFiveMinutes"]["p99"].as_f64().unwrap() <= 0.001, "{body}");
        assert!(body["sinceStart"]["p99"].as_f64().unwrap() > 1.0, "{body}");
    }

    #[test]
    fn a_quantile_lies_on_a_line_within_its_bucket() {
        let totals = |within: &[u64], all| Totals { all, within: within.to_vec(), ..Totals::default() };
        let bounds = [1.0, 2.0, 4.0];
        assert_eq!(totals(&[2, 4, 4], 4).quantile(&bounds, 0.5), Some(1.0));
        assert_eq!(totals(&[2, 4, 4], 4).quantile(&bounds, 0.75), Some(1.5));
        assert_eq!(totals(&[0, 0, 4], 4).quantile(&bounds, 0.5), Some(3.0));
        assert_eq!(totals(&[0, 0, 0], 4).quantile(&bounds, 0.5), Some(4.0), "beyond the last bound");
        assert_eq!(totals(&[0, 0, 0], 0).quantile(&bounds, 0.5), None);
    }
}
