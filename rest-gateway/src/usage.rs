//! The operation `/v1/usage`: an account's own usage, as the account sees it. What is counted, and how it is
//! reported to the core, is in [`usage_counter`](crate::usage_counter).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use petstore_clock::{Day, UnixMillis};
use petstore_key_cache::KnownKey;
use petstore_proto::internal::v1::UsageDay;
use petstore_rate_limit::{LimitStatus, WindowView};
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError, extract::NoInput, gateway::GatewayState, json::json_response, metrics::plan_word,
    request::Caller,
};

/// Handles `GET /v1/usage` (beta). Admission has already inspected the account, since this uses no quota.
pub(crate) async fn get_usage(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    _: NoInput,
) -> Result<Response, ApiError> {
    let (key, limits) = caller.limits.as_ref().ok_or(ApiError::Internal)?;
    let days = gateway.usage.days(&gateway.core, &caller).await?;
    let brownouts = gateway.brownouts.announced(caller.account_id, gateway.keys.core_now());
    Ok(json_response(StatusCode::OK, usage_body(key, limits, &days, &brownouts)))
}

/// Returns the body: a limit status with the days beside it, the latest first, and the brownouts of getPet,
/// if any are announced.
fn usage_body(
    key: &KnownKey,
    status: &LimitStatus,
    days: &[UsageDay],
    brownouts: &[(UnixMillis, UnixMillis)],
) -> String {
    let plan = json!(plan_word(key.plan).unwrap_or("other"));
    let mut usage = Map::from_iter([("plan".to_owned(), plan), ("key".to_owned(), own_key(key))]);
    usage.extend(limit_status(status));
    usage.insert("days".to_owned(), days.iter().map(day).collect());
    if !brownouts.is_empty() {
        let brownout = |(from, until): &(UnixMillis, UnixMillis)| {
            let (from, until) = (moment(*from), moment(*until));
            json!({ "operation": "getPet", "from": from, "until": until })
        };
        usage.insert("brownouts".to_owned(), brownouts.iter().map(brownout).collect());
    }
    Value::Object(usage).to_string()
}

/// Returns the calling key as its holder may see it. Its expiry is rounded down: it is not used for longer.
fn own_key(KnownKey { key_id, last_four, label, expires_at, .. }: &KnownKey) -> Value {
    let text = |text: &str| Some(json!(text)).filter(|_| !text.is_empty());
    let members = [
        ("id", Some(json!(**key_id))),
        ("lastFour", text(last_four)),
        ("label", text(label)),
        ("expireTime", expires_at.map(|at| json!(at.to_string()))),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the members of a limit status, as `GET /v1/usage` and the admin port show it. Times are RFC 3339
/// in UTC.
pub(crate) fn limit_status(status: &LimitStatus) -> Map<String, Value> {
    let LimitStatus { decision, refused_until, strikes } = status;
    let ban = decision.ban.map(|ban| json!({ "from": moment(ban.from), "until": moment(ban.until) }));
    let members = [
        ("minute", Some(window(decision.minute))),
        ("day", Some(window(decision.day))),
        ("strikes", Some(json!(strikes.map_or(0, |strikes| strikes.count)))),
        ("strikesResetAt", strikes.map(|strikes| json!(moment(strikes.resets_at)))),
        ("refusedUntil", refused_until.map(|until| json!(moment(until)))),
        ("ban", ban),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn window(WindowView { limit, remaining, resets_at }: WindowView) -> Value {
    // After a change to a lower plan more may have been used than the limit, which is then shown.
    let used = limit.saturating_sub(remaining);
    json!({ "limit": limit, "used": used, "remaining": remaining, "resetsAt": moment(resets_at) })
}

/// Returns the time as RFC 3339 in UTC, rounded up to the second, as `X-RateLimit-Reset` is.
fn moment(moment: UnixMillis) -> String {
    moment.ceil_to_sec().to_string()
}

fn day(counts: &UsageDay) -> Value {
    let UsageDay { day, succeeded, client_errors, refused, server_errors, get_pet } = *counts;
    json!({
        "date": Day(day).to_string(),
        "requests": succeeded + client_errors + refused + server_errors,
        "succeeded": succeeded,
        "clientErrors": client_errors,
        "rateLimited": refused,
        "serverErrors": server_errors,
        "deprecatedCalls": get_pet,
        // Names of 1.0.0, which clients that were generated before 1.2.0 require.
        "byStatus": { "2xx": succeeded, "4xx": client_errors, "429": refused, "5xx": server_errors },
        "getPet": get_pet,
    })
}

#[cfg(test)]
mod tests {
    use petstore_proto::internal::v1::Plan;
    use petstore_rate_limit::{BanPeriod, Decision, Outcome, Quota, Scope, Strikes};

    use super::*;

    #[test]
    fn it_shows_plan_key_windows_strikes_days_ban_and_brownouts() {
        let quota = Quota { per_minute: 60, per_day: 1_000 };
        let mut key = KnownKey::new("key".into(), 1, Plan::Free, quota);
        assert_eq!(own_key(&key), json!({ "id": "key" }), "only what is known");
        key.expires_at = Some(UnixMillis(1_798_761_599_999));
        (key.last_four, key.label) = ("3kV9".into(), "ci".into());
        let now = UnixMillis(1_795_200_380_250);
        let ban = (UnixMillis::from_secs(1_795_200_000), UnixMillis(1_795_200_300_001));
        let decision = Decision {
            outcome: Outcome::QuotaExceeded,
            is_strike: false,
            struck_out_at: None,
            now,
            minute: WindowView { limit: 60, remaining: 59, resets_at: UnixMillis(now.0 + 42_000) },
            day: WindowView { limit: 1_000, remaining: 0, resets_at: UnixMillis(1_795_219_200_000) },
            ban: Some(BanPeriod { from: ban.0, until: ban.1 }),
            scope: Scope::Shared,
        };
        let strikes = Some(Strikes { count: 3, resets_at: now });
        let status = LimitStatus { decision, refused_until: None, strikes };
        let counts = [1, 2, 3, 4, 5];
        let [succeeded, client_errors, refused, server_errors, get_pet] = counts;
        let day = UsageDay { day: 20_777, succeeded, client_errors, refused, server_errors, get_pet };
        let shown: Value = serde_json::from_str(&usage_body(&key, &status, &[day], &[ban])).unwrap();
        let expected = json!({
            "plan": "free",
            "key": { "id": "key", "lastFour": "3kV9", "label": "ci", "expireTime": "2026-12-31T23:59:59Z" },
            "minute": { "limit": 60, "used": 1, "remaining": 59, "resetsAt": "2026-11-20T18:47:03Z" },
            "day": { "limit": 1000, "used": 1000, "remaining": 0, "resetsAt": "2026-11-21T00:00:00Z" },
            "strikes": 3,
            "strikesResetAt": "2026-11-20T18:46:21Z",
            "ban": { "from": "2026-11-20T18:40:00Z", "until": "2026-11-20T18:45:01Z" },
            "days": [{
                "date": "2026-11-20",
                "requests": 10,
                "succeeded": 1,
                "clientErrors": 2,
                "rateLimited": 3,
                "serverErrors": 4,
                "deprecatedCalls": 5,
                "byStatus": { "2xx": 1, "4xx": 2, "429": 3, "5xx": 4 },
                "getPet": 5,
            }],
            "brownouts": [
                { "operation": "getPet", "from": "2026-11-20T18:40:00Z", "until": "2026-11-20T18:45:01Z" },
            ],
        });
        assert_eq!(shown, expected);
    }
}
