//! Counts a request, and admits or refuses it (docs/contract.md, 6).

use std::{sync::Arc, time::Duration};

use petstore_caller::client_address::ClientAddress;
use petstore_clock::UnixMillis;
use petstore_key_cache::{KeyError, KnownKey, LastBan, UnusableKey};
use petstore_rate_limit::{
    BanCause, Decision, LimitKey, LimitStatus, LimiterUnavailable, Outcome, Quota, Scope, WindowView,
};
use serde_json::{Map, Value};

use super::{RequestContext, Sender};
use crate::{
    error::ApiError,
    gateway::{Gateway, GatewayState},
    operation::Counts,
    usage,
};

/// Quota of a client address without a valid key.
const ADDRESS_QUOTA: Quota = Quota { per_minute: 600, per_day: 100_000 };

/// Quota of an account's requests for its own usage. A day at the limit of the minute
/// stays below that of the day.
const USAGE_QUOTA: Quota = Quota { per_minute: 60, per_day: 100_000 };

/// Verdict on a request, with the limits of the account if it may pass and asks for its usage; and the
/// decision that it is based on, `None` if nothing was counted.
pub(super) type Admission = (Result<Option<Box<LimitStatus>>, ApiError>, Option<Decision>);

/// Counts the request: against the limit of its operation if its key is valid, and otherwise against the
/// client address. Requests that need no key, and those with a malformed head, are not counted.
pub(super) async fn admit(gateway: &GatewayState, context: &RequestContext, sender: &Sender) -> Admission {
    match sender {
        Sender::Unread(refusal) => (Err(refusal.clone()), None),
        Sender::Anybody => (Ok(None), None),
        Sender::Key(key, _) if context.operation.counts == Counts::OwnLimit => {
            Box::pin(admit_to_usage(gateway, key)).await
        }
        Sender::Key(key, _) => {
            let limit_key = limit_key(gateway, key);
            let judged = judge(gateway, &limit_key, key).await;
            if gateway.redis.is_some() {
                let unbanned = judged.as_ref().ok().filter(|(_, ban)| ban.is_none());
                let decision = unbanned.map(|(decision, _)| decision);
                gateway.early_reads.of(key.account_id).note_decision(decision);
            }
            admission(gateway, &limit_key, key.quota, judged, None)
        }
        // The service is at fault. A key that was not looked up because too many others wait is counted,
        // because otherwise a flood would be free.
        Sender::NoKey(UnusableKey { error: error @ KeyError::CoreAway, .. }) => {
            (Err(error.clone().into()), None)
        }
        Sender::NoKey(UnusableKey { error, .. }) => {
            let address = LimitKey::Address(context.address);
            let taken = gateway.limiter.take(&address, ADDRESS_QUOTA, UnixMillis(0)).await;
            let judged = taken.map(|decision| (decision, None)); // an address is never banned
            admission(gateway, &address, ADDRESS_QUOTA, judged, Some(error.clone().into()))
        }
    }
}

/// Decision of the limiter, and the cause of the ban if a ban refuses the request.
type Judged = (Decision, Option<BanCause>);

/// Returns the decision with the ban that is in force, if there is one.
fn with_ban(decision: Decision, last_ban: Option<&LastBan>) -> Judged {
    match last_ban.and_then(|last_ban| last_ban.in_force(decision.now)) {
        Some((ban, cause)) => (Decision { ban: Some(ban), ..decision }, Some(cause.clone())),
        None => (decision, None),
    }
}

/// Counts a request with a key, unless the key is banned, and bans the key if its strikes are too many. The
/// limiter's clock decides when a ban ends, as with `Retry-After`. The core's clock only selects the bans
/// that may be in force.
async fn judge(
    gateway: &GatewayState,
    limit_key: &LimitKey,
    key: &KnownKey,
) -> Result<Judged, LimiterUnavailable> {
    let last_ban = last_ban(gateway, key);
    if let Some(last_ban) = &last_ban
        && last_ban.in_force(gateway.keys.core_now().minus(Duration::from_mins(1))).is_some()
    // clocks differ by less
    {
        let judged = with_ban(gateway.limiter.peek(limit_key, key.quota).await?, Some(last_ban));
        if judged.1.is_some() {
            return Ok(judged);
        }
    }
    let decision = gateway.limiter.take(limit_key, key.quota, settled_at(last_ban.as_ref())).await?;
    let Some(from) = decision.struck_out_at else { return Ok((decision, None)) };
    let is_new = gateway.keys.ban(key, from);
    let judged = with_ban(decision, gateway.keys.last_ban(key).as_ref());
    // Only for the request that exceeded the number of strikes: other gateways get the same time from their
    // next strike.
    if let Some(ban) = judged.0.ban
        && is_new
        && from == decision.now
    {
        gateway.metrics.bans.inc();
        let (account_id, key_id) = (key.account_id, &key.key_id);
        tracing::warn!(account_id, %key_id, until = %ban.until, "banned a key that ignores 429");
    }
    Ok(judged)
}

/// Returns the key's last ban, unless bans are switched off.
fn last_ban(gateway: &GatewayState, key: &KnownKey) -> Option<LastBan> {
    if gateway.settings.bans { gateway.keys.last_ban(key) } else { None }
}

fn settled_at(last_ban: Option<&LastBan>) -> UnixMillis {
    last_ban.map_or(UnixMillis(0), LastBan::settled_at)
}

/// Counts a request for usage. It uses no quota and is answered even if the quota is used up, and during a
/// ban. It has a separate limit, which never leads to a ban and is shown only when it refuses.
async fn admit_to_usage(gateway: &GatewayState, key: &KnownKey) -> Admission {
    let own = LimitKey::Usage(key.account_id);
    let taken = gateway.limiter.take(&own, USAGE_QUOTA, UnixMillis(0)).await;
    let judged = taken.map(|decision| (decision, None));
    let admission = admission(gateway, &own, USAGE_QUOTA, judged, None);
    if admission.0.is_err() {
        return admission;
    }
    match limit_status(gateway, key).await {
        Ok(limits) => (Ok(Some(Box::new(limits))), Some(limits.decision)),
        Err(unavailable) => (Err(unavailable.into()), Some(undecided(key.quota, gateway.clock.now()))),
    }
}

/// Returns the limits of the key's account, and the key's strikes and ban. Counts nothing.
async fn limit_status(gateway: &GatewayState, key: &KnownKey) -> Result<LimitStatus, LimiterUnavailable> {
    let last_ban = last_ban(gateway, key);
    let settled_at = settled_at(last_ban.as_ref());
    let limit_status = gateway.limiter.inspect(&limit_key(gateway, key), key.quota, settled_at).await?;
    let (decision, _) = with_ban(limit_status.decision, last_ban.as_ref());
    Ok(LimitStatus { decision, ..limit_status })
}

/// Returns the counters that a request with the key counts against.
fn limit_key(gateway: &GatewayState, key: &KnownKey) -> LimitKey {
    if gateway.settings.bans {
        LimitKey::ApiKey { account_id: key.account_id, key_id: Arc::clone(&key.key_id) }
    } else {
        LimitKey::Account(key.account_id)
    }
}

/// Returns the admission of a request. If it is within the limits, it may pass, unless there is another
/// `refusal`.
fn admission(
    gateway: &GatewayState,
    limit_key: &LimitKey,
    quota: Quota,
    judged: Result<Judged, LimiterUnavailable>,
    refusal: Option<ApiError>,
) -> Admission {
    gateway.metrics.decided(limit_key, judged.as_ref().map(|(decision, _)| decision).map_err(|away| *away));
    let (refusal, decision) = match judged {
        Ok((decision, Some(cause))) => (Some(ApiError::Banned(Box::new(decision), cause)), decision),
        Ok((decision, None)) if decision.outcome == Outcome::Admitted => (refusal, decision),
        Ok((decision, None)) => (Some(ApiError::OverLimit(decision, counted(limit_key))), decision),
        Err(unavailable) => (Some(unavailable.into()), undecided(quota, gateway.clock.now())),
    };
    (refusal.map_or(Ok(None), Err), Some(decision))
}

/// Returns what a limit counts, for people.
const fn counted(limit_key: &LimitKey) -> &'static str {
    match limit_key {
        LimitKey::ApiKey { .. } | LimitKey::Account(_) => "requests",
        LimitKey::Usage(_) => "requests for usage",
        LimitKey::Address(_) => "failed attempts to authenticate",
    }
}

/// Returns the values to show for a request that was not counted: those of the client address.
pub(super) async fn peek(gateway: &GatewayState, address: ClientAddress) -> Decision {
    let decision = gateway.limiter.peek(&LimitKey::Address(address), ADDRESS_QUOTA).await;
    decision.unwrap_or_else(|LimiterUnavailable| undecided(ADDRESS_QUOTA, gateway.clock.now()))
}

/// Returns the values to show while nothing can be counted: no requests are left for a second, which is the
/// time in `Retry-After`.
fn undecided(quota: Quota, now: UnixMillis) -> Decision {
    let resets_at = UnixMillis(now.0.saturating_add(1_000));
    let window = |limit| WindowView { limit, remaining: 0, resets_at };
    let (minute, day) = (window(quota.per_minute), window(quota.per_day));
    Decision { scope: Scope::Node, ..Decision::new(Outcome::RateLimited, now, minute, day) }
}

/// Limits in use, for the admin port.
impl Gateway {
    /// Returns the used part of an account's limits as JSON, and counts nothing.
    ///
    /// # Errors
    ///
    /// If the limiter is not available.
    pub async fn account_limits(
        &self,
        account_id: i64,
        quota: Quota,
    ) -> Result<Map<String, Value>, ApiError> {
        let key = LimitKey::Account(account_id);
        Ok(usage::limit_status(&self.state().limiter.inspect(&key, quota, UnixMillis(0)).await?))
    }

    /// Returns the used part of the limits of a key's account, and the key's strikes and ban, as JSON. Counts
    /// nothing.
    ///
    /// # Errors
    ///
    /// If the core does not know the key or does not answer, or the limiter is not available.
    pub async fn key_limits(&self, key_id: &str) -> Result<Map<String, Value>, ApiError> {
        let key = self.state().keys.find(key_id).await?;
        Ok(usage::limit_status(&limit_status(self.state(), &key).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limiter_retry_after_is_one_second() {
        let decision = undecided(Quota { per_minute: 60, per_day: 1_000 }, UnixMillis(5_500));
        let shown = WindowView { limit: 60, remaining: 0, resets_at: UnixMillis(6_500) };
        assert_eq!((decision.shown(), decision.retry_after_secs()), (shown, Some(1)));
    }
}
