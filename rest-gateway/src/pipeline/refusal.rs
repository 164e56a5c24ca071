//! Records the reason of a refusal, for `petstore explain`.

use petstore_clock::UnixMillis;
use petstore_proto::{admin::v1::RefusalCause, internal::v1::Refusal};
use petstore_rate_limit::{BanCause, DAY, MINUTE, Outcome, WindowView};

use super::{RequestContext, Sender};
use crate::{error::ApiError, gateway::GatewayState, operation::Counts};

/// Records the refusal, unless the request was malformed or a part of the service is unavailable.
pub(super) fn note(gateway: &GatewayState, context: &RequestContext, sender: &Sender, error: &ApiError) {
    let own_limit = match (sender.key(), context.operation.counts) {
        (None, _) => Some(RefusalCause::AddressLimit),
        (Some(_), Counts::OwnLimit) => Some(RefusalCause::UsageLimit),
        (Some(_), _) => None,
    };
    let Some(refusal) = refusal_by(error, own_limit) else { return };
    let mut refusal = Refusal { request_id: context.request_id.as_str().to_owned(), ..refusal };
    if let Some(key) = sender.known_key() {
        (refusal.account_id, refusal.key_id) = (key.account_id, key.key_id.to_string());
    }
    gateway.usage.note_refusal(refusal, context.address);
}

/// Returns the refusal with its cause. `own_limit` is the limit that counts the request instead of those of
/// the account.
fn refusal_by(error: &ApiError, own_limit: Option<RefusalCause>) -> Option<Refusal> {
    let of_window = |cause, window: WindowView, length| {
        let limit = i64::try_from(window.limit).unwrap_or_default();
        let since = UnixMillis(window.resets_at.0.saturating_sub(length));
        (own_limit.unwrap_or(cause), limit, Some((since, window.resets_at)))
    };
    let (cause, limit, period) = match error {
        ApiError::MissingApiKey => (RefusalCause::MissingKey, 0, None),
        ApiError::InvalidApiKey => (RefusalCause::InvalidKey, 0, None),
        ApiError::ApiKeyRevoked => (RefusalCause::KeyRevoked, 0, None),
        ApiError::ApiKeyExpired => (RefusalCause::KeyExpired, 0, None),
        ApiError::AccountSuspended { .. } => (RefusalCause::AccountSuspended, 0, None),
        ApiError::InsufficientScope => (RefusalCause::InsufficientScope, 0, None),
        ApiError::AddressNotAllowed => (RefusalCause::AddressNotAllowed, 0, None),
        ApiError::OverLimit(decision, _) => match decision.outcome {
            Outcome::Admitted => return None,
            Outcome::RateLimited => of_window(RefusalCause::MinuteLimit, decision.minute, MINUTE),
            Outcome::QuotaExceeded => of_window(RefusalCause::DayLimit, decision.day, DAY),
        },
        ApiError::Banned(decision, cause) => {
            let cause = match cause {
                BanCause::Operator(_) => RefusalCause::OperatorBan,
                BanCause::IgnoredRefusals => RefusalCause::LimiterBan,
            };
            (cause, 0, decision.ban.map(|ban| (ban.from, ban.until)))
        }
        _ => return None,
    };
    Some(Refusal {
        cause: cause.into(),
        limit,
        since_ms: period.map(|(since, _)| since.as_i64()),
        until_ms: period.map(|(_, until)| until.as_i64()),
        ..Refusal::default()
    })
}

#[cfg(test)]
mod tests {
    use petstore_rate_limit::{BanPeriod, Decision, Scope};

    use super::{RefusalCause as C, *};

    const NOW: u64 = 1_795_200_380_000;

    #[test]
    fn a_refusal_names_its_cause_and_its_window_or_ban_and_outages_are_not_refusals() {
        let window = |limit, resets_at| WindowView { limit, remaining: 0, resets_at: UnixMillis(resets_at) };
        let decision = |outcome| Decision {
            outcome,
            is_strike: false,
            struck_out_at: None,
            now: UnixMillis(NOW),
            minute: window(60, NOW + 42_000),
            day: window(1_000, 1_795_219_200_000),
            ban: Some(BanPeriod { from: UnixMillis(NOW), until: UnixMillis(NOW + 300_000) }),
            scope: Scope::Shared,
        };
        let (minute, day) = (decision(Outcome::RateLimited), decision(Outcome::QuotaExceeded));
        let limited = |decision| ApiError::OverLimit(decision, "requests");
        let banned = |cause| ApiError::Banned(Box::new(decision(Outcome::Admitted)), cause);
        let minute_of = |cause| (cause, 60, Some((1_795_200_362_000, 1_795_200_422_000)));
        let day_of = |cause| (cause, 1_000, Some((1_795_132_800_000, 1_795_219_200_000)));
        let ban_of = |cause| (cause, 0, Some((1_795_200_380_000, 1_795_200_680_000)));
        for (error, own_limit, expected) in [
            (limited(minute), None, Some(minute_of(C::MinuteLimit))),
            (limited(minute), Some(C::UsageLimit), Some(minute_of(C::UsageLimit))),
            (limited(day), None, Some(day_of(C::DayLimit))),
            (limited(day), Some(C::AddressLimit), Some(day_of(C::AddressLimit))),
            (banned(BanCause::IgnoredRefusals), None, Some(ban_of(C::LimiterBan))),
            (banned(BanCause::Operator(None)), None, Some(ban_of(C::OperatorBan))),
            (ApiError::MissingApiKey, Some(C::AddressLimit), Some((C::MissingKey, 0, None))),
            (ApiError::AccountSuspended { reason: "".into() }, None, Some((C::AccountSuspended, 0, None))),
            (ApiError::ApiKeyNotChecked, None, None),
            (ApiError::UriTooLong, None, None),
        ] {
            let found = refusal_by(&error, own_limit);
            let found = found.map(|it| (it.cause(), it.limit, it.since_ms.zip(it.until_ms)));
            assert_eq!(found, expected, "{error}");
        }
    }
}
