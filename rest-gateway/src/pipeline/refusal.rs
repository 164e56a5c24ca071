//! Records the reason of a refusal, for `petstore explain`.

use std::sync::Arc;

use petstore_proto::admin::v1::RefusalCause;
use petstore_rate_limit::{BanCause, DAY, Decision, MINUTE, Outcome, WindowView};

use super::{RequestContext, Sender};
use crate::{
    error::ApiError,
    gateway::GatewayState,
    operation::Counts,
    usage::{RefusedBy, Who},
};

/// Records the refusal, unless the request was malformed or a part of the service is unavailable.
pub(super) fn note(gateway: &GatewayState, context: &RequestContext, sender: &Sender, error: &ApiError) {
    let own_limit = match (sender.key(), context.operation.counts) {
        (None, _) => Some(RefusalCause::AddressLimit),
        (Some(_), Counts::OwnLimit) => Some(RefusalCause::UsageLimit),
        (Some(_), _) => None,
    };
    let Some(by) = refused_by(error, own_limit) else { return };
    let who = match sender.known_key() {
        Some(key) => Who::Key(Arc::clone(key)),
        None => Who::Address(context.address),
    };
    gateway.usage.refused(context.request_id.clone(), who, by);
}

/// Returns what refused the request. `own_limit` is the limit that counts it instead of those of the account.
fn refused_by(error: &ApiError, own_limit: Option<RefusalCause>) -> Option<RefusedBy> {
    let cause = match error {
        ApiError::MissingApiKey => RefusalCause::MissingKey,
        ApiError::InvalidApiKey => RefusalCause::InvalidKey,
        ApiError::ApiKeyRevoked => RefusalCause::KeyRevoked,
        ApiError::ApiKeyExpired => RefusalCause::KeyExpired,
        ApiError::AccountSuspended { .. } => RefusalCause::AccountSuspended,
        ApiError::InsufficientScope => RefusalCause::InsufficientScope,
        ApiError::AddressNotAllowed => RefusalCause::AddressNotAllowed,
        ApiError::OverLimit(decision, _) => return over_limit(decision, own_limit),
        ApiError::Banned(decision, cause) => {
            let cause = match cause {
                BanCause::Operator(_) => RefusalCause::OperatorBan,
                BanCause::IgnoredRefusals => RefusalCause::LimiterBan,
            };
            let period = decision.ban.map(|ban| (ban.from, ban.until));
            return Some(RefusedBy { cause, limit: None, period });
        }
        _ => return None,
    };
    Some(RefusedBy { cause, limit: None, period: None })
}

fn over_limit(decision: &Decision, own_limit: Option<RefusalCause>) -> Option<RefusedBy> {
    let (cause, WindowView { limit, resets_at, .. }, length) = match decision.outcome {
        Outcome::Admitted => return None,
        Outcome::RateLimited => (RefusalCause::MinuteLimit, decision.minute, MINUTE),
        Outcome::QuotaExceeded => (RefusalCause::DayLimit, decision.day, DAY),
    };
    let cause = own_limit.unwrap_or(cause);
    let since = petstore_clock::UnixMillis(resets_at.0.saturating_sub(length));
    Some(RefusedBy { cause, limit: Some(limit), period: Some((since, resets_at)) })
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;
    use petstore_rate_limit::{BanPeriod, Scope};

    use super::{RefusalCause as C, *};

    const NOW: UnixMillis = UnixMillis(1_795_200_380_000);

    fn decision(outcome: Outcome) -> Decision {
        let window = |limit, resets_at| WindowView { limit, remaining: 0, resets_at: UnixMillis(resets_at) };
        Decision {
            outcome,
            is_strike: false,
            struck_out_at: None,
            now: NOW,
            minute: window(60, NOW.0 + 42_000),
            day: window(1_000, 1_795_219_200_000),
            ban: Some(BanPeriod { from: NOW, until: UnixMillis(NOW.0 + 300_000) }),
            scope: Scope::Shared,
        }
    }

    fn refused(outcome: Outcome, own_limit: Option<C>) -> RefusedBy {
        refused_by(&ApiError::OverLimit(decision(outcome), "requests"), own_limit).unwrap()
    }

    fn banned(cause: BanCause) -> RefusedBy {
        refused_by(&ApiError::Banned(Box::new(decision(Outcome::Admitted)), cause), None).unwrap()
    }

    #[test]
    fn a_refusal_names_its_window_or_ban() {
        let by = |cause, limit, since, until| RefusedBy {
            cause,
            limit,
            period: Some((UnixMillis(since), UnixMillis(until))),
        };
        let minute = |cause| by(cause, Some(60), NOW.0 - 18_000, NOW.0 + 42_000);
        let day = |cause| by(cause, Some(1_000), 1_795_132_800_000, 1_795_219_200_000);
        let ban = |cause| by(cause, None, NOW.0, NOW.0 + 300_000);
        for (recorded, expected) in [
            (refused(Outcome::RateLimited, None), minute(C::MinuteLimit)),
            (refused(Outcome::RateLimited, Some(C::UsageLimit)), minute(C::UsageLimit)),
            (refused(Outcome::RateLimited, Some(C::AddressLimit)), minute(C::AddressLimit)),
            (refused(Outcome::QuotaExceeded, None), day(C::DayLimit)),
            (refused(Outcome::QuotaExceeded, Some(C::AddressLimit)), day(C::AddressLimit)),
            (banned(BanCause::IgnoredRefusals), ban(C::LimiterBan)),
            (banned(BanCause::Operator(None)), ban(C::OperatorBan)),
        ] {
            assert_eq!(recorded, expected);
        }
    }

    #[test]
    fn refused_keys_are_recorded_by_cause_and_outages_are_not_refusals() {
        for (error, cause) in [
            (ApiError::MissingApiKey, Some(C::MissingKey)),
            (ApiError::InvalidApiKey, Some(C::InvalidKey)),
            (ApiError::ApiKeyRevoked, Some(C::KeyRevoked)),
            (ApiError::ApiKeyExpired, Some(C::KeyExpired)),
            (ApiError::AccountSuspended { reason: "".into() }, Some(C::AccountSuspended)),
            (ApiError::InsufficientScope, Some(C::InsufficientScope)),
            (ApiError::AddressNotAllowed, Some(C::AddressNotAllowed)),
            (ApiError::ApiKeyNotChecked, None),
            (ApiError::UriTooLong, None),
            (ApiError::Internal, None),
        ] {
            assert_eq!(refused_by(&error, Some(C::AddressLimit)).map(|by| by.cause), cause, "{error}");
        }
    }
}
