//! Metrics of requests and of the limiter's decisions. Keys and connections are counted in their own modules:
//! `petstore-key-cache` and `petstore-http-server`.

use std::time::Duration;

use axum::response::Response;
use petstore_proto::internal::v1::Plan;
use petstore_rate_limit::{Decision, LimitKey, LimiterUnavailable, Outcome, Scope, WindowView};
use petstore_telemetry::metrics::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, counter, counters, durations, gauge,
};
use petstore_telemetry::{abandoned::caller_has_left, metrics};

use crate::{error::ApiError, json::word};

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
        self.strikes.inc_by(decided.is_ok_and(|decision| decision.is_strike).into());
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

/// Returns the name of the plan; `None` if it is of a newer core.
pub(crate) fn plan_word(plan: Plan) -> Option<&'static str> {
    word(&["free", "pro", "business", "enterprise"], plan.into())
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
    use petstore_clock::UnixMillis;

    use super::*;

    #[test]
    fn near_the_limit_is_four_fifths_used() {
        let near = |limit, remaining| {
            is_near_limit(WindowView { limit, remaining, resets_at: UnixMillis::default() })
        };
        assert_eq!((near(60, 13), near(60, 12), near(60, 0)), (false, true, true));
        assert_eq!((near(1, 1), near(1, 0), near(u64::MAX, u64::MAX)), (false, true, false));
    }
}
