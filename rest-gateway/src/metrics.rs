//! Metrics of requests and of the limiter's decisions. Keys and connections are counted in their own modules:
//! `petstore-key-cache` and `petstore-http-server`.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use axum::response::Response;
use parking_lot::Mutex;
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::Plan;
use petstore_rate_limit::{Decision, LimitKey, LimiterUnavailable, Outcome, Scope, WindowView};
use petstore_telemetry::metrics::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, counter, counters, durations, gauge,
};
use petstore_telemetry::{abandoned::caller_has_left, metrics};

use crate::error::ApiError;

metrics! {
    /// Metrics of one gateway.
    pub(crate) struct Metrics {
        durations: HistogramVec = durations(
            "http_server_request_duration_seconds",
            "Time from a request's head to its response's head.",
            // OpenTelemetry's conventions (1.45), with `_` for dots; and the operation.
            &[
                "operation",
                "http_request_method",
                "http_route",
                "http_response_status_code",
                "url_scheme",
            ],
        ),
        pub(crate) active: IntGauge = gauge("http_server_active_requests", "Requests in flight."),
        requests: IntCounterVec = counters(
            "petstore_requests_total",
            "Requests answered, by plan and code.",
            &["operation", "plan", "code"],
        ),
        abandoned: IntCounterVec = counters(
            "petstore_requests_abandoned_total",
            "Requests whose client left before their response; counted elsewhere too.",
            &["operation"],
        ),
        decisions: IntCounterVec = counters(
            "petstore_limiter_decisions_total",
            "Decisions of the rate limiter.",
            &["subject", "outcome", "scope"],
        ),
        near_limit: IntCounterVec = counters(
            "petstore_limiter_near_limit_total",
            "Requests admitted with at least 80 % of the window's limit used.",
            &["window"],
        ),
        pub(crate) waits: IntCounterVec = counters(
            "petstore_limiter_waits_total",
            "First requests of accounts after their Retry-After.",
            &["outcome"],
        ),
        strikes: IntCounter = counter(
            "petstore_limiter_strikes_total",
            "Requests of keys that keep sending a second after a 429.",
        ),
        pub(crate) bans: IntCounter = counter(
            "petstore_limiter_bans_total",
            "Bans imposed for strikes, without those by operators.",
        ),
    }
}

impl Metrics {
    /// Counts a request for an operation and its response. `plan` is that of the account, if the key was
    /// valid.
    pub(crate) fn count_response(
        &self,
        [name, method, path]: [&str; 3],
        scheme: &str,
        response: &Response,
        plan: Option<Plan>,
        took: Duration,
    ) {
        let status = response.status();
        let labels = [name, method, path, status.as_str(), scheme];
        self.durations.with_label_values(&labels).observe(took.as_secs_f64());
        let code = response.extensions().get().map_or("OK", |error: &ApiError| error.reason().code().name);
        self.requests.with_label_values(&[name, plan.and_then(plan_word).unwrap_or("none"), code]).inc();
        if caller_has_left() {
            self.abandoned.with_label_values(&[name]).inc();
        }
    }

    /// Counts a decision of the limiter.
    pub(crate) fn decided(&self, limit_key: &LimitKey, decided: Result<&Decision, LimiterUnavailable>) {
        let kind = match limit_key {
            LimitKey::ApiKey { .. } | LimitKey::Account(_) => "account",
            LimitKey::Usage(_) => "usage",
            LimitKey::Address(_) => "address",
        };
        let (outcome, scope) = match decided {
            Ok(decision) => (outcome_word(decision), scope_word(decision.scope)),
            Err(LimiterUnavailable) => ("unavailable", scope_word(Scope::Node)),
        };
        self.decisions.with_label_values(&[kind, outcome, scope]).inc();
        if let Ok(decision) = decided
            && decision.is_strike
        {
            self.strikes.inc();
        }
        if let (Ok(decision), "account") = (decided, kind)
            && decision.outcome == Outcome::Admitted
            && decision.ban.is_none()
        {
            for (window, name) in [(decision.minute, "minute"), (decision.day, "day")] {
                if is_near_limit(window) {
                    self.near_limit.with_label_values(&[name]).inc();
                }
            }
        }
    }
}

/// Maximum number of accounts that are kept. With one more, all are forgotten.
const MAX_WAITING: usize = 10_000;

/// Accounts that were told when to return, and the times that `Retry-After` told them last.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    until: Mutex<HashMap<i64, UnixMillis>>,
    /// Number of accounts that are kept. While there are none, an admitted request takes no lock.
    accounts: AtomicUsize,
}

impl Waits {
    /// Records a decision about an account. If it is the first since the account may return, returns whether
    /// the request was admitted.
    pub(crate) fn note(&self, account_id: i64, decision: &Decision) -> Option<bool> {
        let retry_after = decision.retry_after_secs();
        if retry_after.is_none() && self.accounts.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut until = self.until.lock();
        let may_return = until.remove(&account_id).is_some_and(|until| until <= decision.now);
        if let Some(seconds) = retry_after {
            if until.len() >= MAX_WAITING {
                until.clear();
            }
            let millis = seconds.saturating_mul(1_000);
            until.insert(account_id, UnixMillis(decision.now.0.saturating_add(millis)));
        }
        self.accounts.store(until.len(), Ordering::Relaxed);
        may_return.then_some(retry_after.is_none())
    }
}

/// Returns the name of the plan; `None` if it is of a newer core.
pub(crate) const fn plan_word(plan: Plan) -> Option<&'static str> {
    match plan {
        Plan::Free => Some("free"),
        Plan::Pro => Some("pro"),
        Plan::Business => Some("business"),
        Plan::Enterprise => Some("enterprise"),
        Plan::Unspecified => None,
    }
}

/// Returns `true` if at least four fifths are used up.
const fn is_near_limit(window: WindowView) -> bool {
    window.remaining <= window.limit / 5
}

const fn outcome_word(decision: &Decision) -> &'static str {
    match decision.outcome {
        _ if decision.ban.is_some() => "banned",
        Outcome::Admitted => "admitted",
        Outcome::RateLimited => "rate_limited",
        Outcome::QuotaExceeded => "quota_exceeded",
    }
}

const fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Shared => "shared",
        Scope::Node => "node",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_limit_is_four_fifths_used() {
        let near = |limit, remaining| {
            is_near_limit(WindowView { limit, remaining, resets_at: UnixMillis::default() })
        };
        assert_eq!((near(60, 13), near(60, 12), near(60, 0)), (false, true, true));
        assert_eq!((near(1, 1), near(1, 0), near(u64::MAX, u64::MAX)), (false, true, false));
    }

    fn decision(now: u64, outcome: Outcome) -> Decision {
        let minute = WindowView { limit: 1, remaining: 0, resets_at: UnixMillis(60_000) };
        let day = WindowView { limit: 9, remaining: 9, resets_at: UnixMillis(86_400_000) };
        let (now, scope) = (UnixMillis(now), Scope::Shared);
        Decision { outcome, is_strike: false, struck_out_at: None, now, minute, day, ban: None, scope }
    }

    #[test]
    fn the_first_request_after_the_wait_is_judged_once() {
        use Outcome::{Admitted, RateLimited};
        let waits = Waits::default();
        for (now, outcome, judged) in [
            (0, Admitted, None),
            (1_000, RateLimited, None),
            (2_000, RateLimited, None),
            (60_000, Admitted, Some(true)),
            (60_001, Admitted, None),
            (60_002, RateLimited, None),
            (61_002, RateLimited, Some(false)),
            (61_003, Admitted, None),
            (99_000, Admitted, None),
        ] {
            assert_eq!(waits.note(1, &decision(now, outcome)), judged, "{now}");
        }
    }

    #[test]
    fn the_number_of_accounts_is_bounded() {
        let waits = Waits::default();
        for account in 0..25_000 {
            waits.note(account, &decision(0, Outcome::RateLimited));
            assert!(waits.until.lock().len() <= MAX_WAITING);
        }
    }
}
