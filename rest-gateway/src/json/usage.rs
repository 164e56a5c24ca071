//! An account's own usage, as the account sees it.

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::{Plan, UsageDay};
use serde::Serialize;

use crate::{
    rate_limit::{BanPeriod, LimitStatus, WindowView},
    usage::date,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    plan: &'static str,
    #[serde(flatten)]
    limit_status: LimitStatusBody,
    days: Vec<Day>,
}

/// Limit status as `GET /v1/usage` and the admin port show it. Times are RFC 3339 in UTC.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitStatusBody {
    /// The window of a minute.
    minute: WindowBody,
    /// The window of a UTC day.
    day: WindowBody,
    /// Requests after 429 that count towards a ban.
    strikes: u64,
    /// Time at which the strikes expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    strikes_reset_at: Option<String>,
    /// Time up to which all requests are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_until: Option<String>,
    /// The ban in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    ban: Option<BanBody>,
}

/// Window in which requests are counted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WindowBody {
    /// Number of requests that it allows.
    limit: u64,
    /// Number of requests that were counted.
    used: u64,
    /// Number of requests that are left.
    remaining: u64,
    /// Time at which it ends.
    resets_at: String,
}

/// Beginning and end of a key's ban.
#[derive(Debug, Serialize)]
struct BanBody {
    /// Time at which it was imposed.
    from: String,
    /// Time at which it ends.
    until: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Day {
    date: String,
    requests: i64,
    by_status: ByStatus,
    get_pet: i64,
}

#[derive(Serialize)]
struct ByStatus {
    #[serde(rename = "2xx")]
    succeeded: i64,
    #[serde(rename = "4xx")]
    client_errors: i64,
    #[serde(rename = "429")]
    refused: i64,
    #[serde(rename = "5xx")]
    server_errors: i64,
}

/// Returns the body of a limit status with the days beside it, the latest first.
pub(crate) fn usage_body(plan: Plan, limit_status: &LimitStatus, days: &[UsageDay]) -> Vec<u8> {
    let days = days.iter().map(day).collect();
    let usage = Usage { plan: plan_word(plan), limit_status: limit_status.into(), days };
    serde_json::to_vec(&usage).unwrap_or_default() // serialising numbers and strings does not fail
}

impl From<&LimitStatus> for LimitStatusBody {
    fn from(limit_status: &LimitStatus) -> Self {
        Self {
            minute: window(limit_status.decision.minute),
            day: window(limit_status.decision.day),
            strikes: limit_status.strikes.map_or(0, |strikes| strikes.count),
            strikes_reset_at: limit_status.strikes.map(|strikes| moment(strikes.resets_at)),
            refused_until: limit_status.refused_until.map(moment),
            ban: limit_status
                .decision
                .ban
                .map(|BanPeriod { from, until }| BanBody { from: from.to_string(), until: moment(until) }),
        }
    }
}

fn window(WindowView { limit, remaining, resets_at }: WindowView) -> WindowBody {
    // After a change to a lower plan more may have been used than the limit, which is then shown.
    WindowBody { limit, used: limit.saturating_sub(remaining), remaining, resets_at: moment(resets_at) }
}

/// Returns the time as RFC 3339 in UTC, rounded up to the second, as `X-RateLimit-Reset` is.
fn moment(moment: UnixMillis) -> String {
    UnixMillis::from_secs(moment.as_secs_ceil()).to_string()
}

fn day(counts: &UsageDay) -> Day {
    let UsageDay { day, succeeded, client_errors, refused, server_errors, get_pet } = *counts;
    Day {
        date: date(day),
        requests: succeeded + client_errors + refused + server_errors,
        by_status: ByStatus { succeeded, client_errors, refused, server_errors },
        get_pet,
    }
}

const fn plan_word(plan: Plan) -> &'static str {
    match plan {
        Plan::Free => "free",
        Plan::Pro => "pro",
        Plan::Business => "business",
        Plan::Enterprise => "enterprise",
        Plan::Unspecified => "other", // of a newer core
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_limit::{Decision, Outcome, Scope, Strikes};

    fn body(limit_status: &LimitStatus) -> serde_json::Value {
        let day = UsageDay {
            day: 20_777,
            succeeded: 1,
            client_errors: 2,
            refused: 3,
            server_errors: 4,
            get_pet: 5,
        };
        serde_json::from_slice(&usage_body(Plan::Free, limit_status, &[day])).unwrap()
    }

    fn limit_status() -> LimitStatus {
        let now = UnixMillis(1_795_200_380_250);
        let decision = Decision {
            outcome: Outcome::QuotaExceeded,
            is_strike: false,
            struck_out_at: None,
            now,
            minute: WindowView { limit: 60, remaining: 59, resets_at: UnixMillis(now.0 + 42_000) },
            day: WindowView { limit: 1_000, remaining: 0, resets_at: UnixMillis(1_795_219_200_000) },
            ban: None,
            scope: Scope::Shared,
        };
        let strikes = Some(Strikes { count: 3, resets_at: now });
        LimitStatus { decision, refused_until: None, strikes }
    }

    #[test]
    fn it_shows_plan_windows_strikes_and_days() {
        let expected = serde_json::json!({
            "plan": "free",
            "minute": { "limit": 60, "used": 1, "remaining": 59, "resetsAt": "2026-11-20T18:47:03Z" },
            "day": { "limit": 1000, "used": 1000, "remaining": 0, "resetsAt": "2026-11-21T00:00:00Z" },
            "strikes": 3,
            "strikesResetAt": "2026-11-20T18:46:21Z",
            "days": [{
                "date": "2026-11-20",
                "requests": 10,
                "byStatus": { "2xx": 1, "4xx": 2, "429": 3, "5xx": 4 },
                "getPet": 5,
            }],
        });
        assert_eq!(body(&limit_status()), expected);
    }

    #[test]
    fn a_ban_is_shown_while_it_is_in_force() {
        let ban =
            BanPeriod { from: UnixMillis::from_secs(1_795_200_000), until: UnixMillis(1_795_200_300_001) };
        let status = limit_status();
        let decision = Decision { ban: Some(ban), ..status.decision };
        let shown = &body(&LimitStatus { decision, ..status })["ban"];
        assert_eq!(
            *shown,
            serde_json::json!({ "from": "2026-11-20T18:40:00Z", "until": "2026-11-20T18:45:01Z" })
        );
    }
}
