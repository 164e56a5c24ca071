//! Counts a request, and admits or refuses it (docs/contract.md, 6).

use std::sync::Arc;

use petstore_clock::UnixMillis;

use super::{authenticate::Unauthenticated, context::RequestContext};
use crate::{
    client_address::ClientAddress,
    error::ApiError,
    gateway::GatewayState,
    keys::KnownKey,
    operation::Counts,
    rate_limit::{
        ADDRESS_QUOTA, Decision, LimitKey, LimitStatus, LimiterUnavailable, Outcome, Quota, Scope,
        USAGE_QUOTA, WindowView,
    },
};

/// The verdict on a request, with the counters that it is based on.
pub(super) struct Admission {
    /// The key, if it is valid, also when the request may not pass.
    pub(super) key: Option<Arc<KnownKey>>,
    /// The key, if it is known and cannot be used.
    pub(super) refused_key: Option<Arc<KnownKey>>,
    pub(super) verdict: Result<(), ApiError>,
    /// `None` when nothing was counted.
    pub(super) decision: Option<Decision>,
    /// The limits of the account, for a request for its usage.
    pub(super) limit_status: Option<LimitStatus>,
}

impl Admission {
    /// Returns the verdict on a request that no limit counts.
    pub(super) const fn not_counted(verdict: Result<(), ApiError>) -> Self {
        Self { key: None, refused_key: None, verdict, decision: None, limit_status: None }
    }
}

/// Counts the request: against what its operation counts against if its key is valid, or else against the
/// client address.
pub(super) async fn admit(
    gateway: &GatewayState,
    context: &RequestContext,
    key: Result<Arc<KnownKey>, Unauthenticated>,
) -> Admission {
    match key {
        Ok(key) if context.operation.counts == Counts::OwnLimit => {
            Box::pin(admit_to_usage(gateway, key)).await
        }
        Ok(key) => {
            let (limit_key, quota) = (limit_key(gateway, &key), key.quota);
            let admission = take(gateway, &limit_key, quota, Ok(Arc::clone(&key))).await;
            if let Some(decision) = &admission.decision {
                key.note_decision(decision);
            }
            admission
        }
        Err(Unauthenticated { error, .. }) if is_free(&error) => Admission::not_counted(Err(error)),
        Err(Unauthenticated { error, key }) => {
            let address = LimitKey::Address(context.address);
            let admission = take(gateway, &address, ADDRESS_QUOTA, Err(error)).await;
            Admission { refused_key: key, ..admission }
        }
    }
}

/// Returns `true` if a request without a usable key costs its address nothing, because the service is at
/// fault. A key that was not looked up because too many others wait is not free, or else a flood would be.
const fn is_free(error: &ApiError) -> bool {
    matches!(error, ApiError::ApiKeyNotChecked)
}

/// Counts a question about usage. It costs no quota and is answered also when that is used up, and in a
/// ban. It has a limit of its own, which is shown only when it refuses.
async fn admit_to_usage(gateway: &GatewayState, key: Arc<KnownKey>) -> Admission {
    let own = LimitKey::Usage(key.account_id);
    let (limit_key, quota) = (limit_key(gateway, &key), key.quota);
    let admission = take(gateway, &own, USAGE_QUOTA, Ok(key)).await;
    if admission.verdict.is_err() {
        return admission;
    }
    match gateway.limiter.inspect(&limit_key, quota).await {
        Ok(limit_status) => {
            Admission { decision: Some(limit_status.decision), limit_status: Some(limit_status), ..admission }
        }
        Err(unavailable) => {
            let decision = Some(undecided(quota, gateway.clock.now()));
            Admission { verdict: Err(unavailable.into()), decision, ..admission }
        }
    }
}

/// Returns the counters that a request with the key counts against.
fn limit_key(gateway: &GatewayState, key: &KnownKey) -> LimitKey {
    if gateway.settings.bans {
        LimitKey::ApiKey { account_id: key.account_id, key_id: Arc::clone(&key.key_id) }
    } else {
        LimitKey::Account(key.account_id)
    }
}

/// Counts one request. If it is admitted, it may pass with the key, or is refused for the reason in `caller`.
async fn take(
    gateway: &GatewayState,
    limit_key: &LimitKey,
    quota: Quota,
    caller: Result<Arc<KnownKey>, ApiError>,
) -> Admission {
    let taken = match gateway.limiter.take(limit_key, quota).await {
        Ok(decision) => gateway.keys.settle_ban(limit_key, quota, decision).await,
        Err(unavailable) => Err(unavailable),
    };
    gateway.metrics.decided(limit_key, taken.as_ref().map(|(decision, _)| decision).map_err(|away| *away));
    let (key, refusal) = match caller {
        Ok(key) => (Some(key), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let (refusal, decision) = match taken {
        Ok((decision, _)) if decision.outcome == Outcome::Admitted => (refusal, decision),
        Ok((decision, cause)) => (Some(ApiError::OverLimit(decision, cause)), decision),
        Err(unavailable) => (Some(unavailable.into()), undecided(quota, gateway.clock.now())),
    };
    let verdict = refusal.map_or(Ok(()), Err);
    Admission { key, refused_key: None, verdict, decision: Some(decision), limit_status: None }
}

/// Returns the values to show for a request that was not counted: those of the client address.
pub(super) async fn peek(gateway: &GatewayState, address: ClientAddress) -> Decision {
    let decision = gateway.limiter.peek(&LimitKey::Address(address), ADDRESS_QUOTA).await;
    decision.unwrap_or_else(|LimiterUnavailable| undecided(ADDRESS_QUOTA, gateway.clock.now()))
}

/// Returns the values to show while nothing can be counted: nothing is left for a second, the time in
/// `Retry-After`.
fn undecided(quota: Quota, now: UnixMillis) -> Decision {
    let resets_at = UnixMillis(now.0.saturating_add(1_000));
    let window = |limit| WindowView { limit, remaining: 0, resets_at };
    Decision {
        outcome: Outcome::RateLimited,
        is_strike: false,
        now,
        minute: window(quota.per_minute),
        day: window(quota.per_day),
        ban: None,
        scope: Scope::Node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cores_absence_is_free_and_what_waits_in_vain_is_not() {
        for (error, free) in [
            (ApiError::ApiKeyNotChecked, true),
            (ApiError::TooManyKeyLookups, false),
            (ApiError::InvalidApiKey, false),
            (ApiError::ApiKeyRevoked, false),
        ] {
            assert_eq!(is_free(&error), free, "{error}");
        }
    }

    #[test]
    fn while_nothing_can_be_counted_the_next_try_is_a_second_away() {
        let decision = undecided(Quota { per_minute: 60, per_day: 1_000 }, UnixMillis(5_500));
        let shown = WindowView { limit: 60, remaining: 0, resets_at: UnixMillis(6_500) };
        assert_eq!((decision.shown(), decision.retry_after_secs()), (shown, Some(1)));
    }
}
