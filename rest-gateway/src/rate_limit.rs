//! Rate limits (docs/contract.md, 6): how many requests a caller may make, and when a key that ignores 429 is
//! to be banned. Bans themselves are a state of keys: `keys::bans`.
//!
//! `policy` holds all rules, as a pure function. A [`RateLimiter`] keeps the counters and makes each decision
//! in one atomic step; `conformance` is the test suite that every limiter passes.

mod abuse;
mod ban;
#[cfg(test)]
mod conformance;
mod counters;
mod decision;
mod in_process;
mod policy;
mod redis;
mod resilient;
mod windows;

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use petstore_clock::UnixMillis;
pub use petstore_plans::Quota;

pub(crate) use self::decision::put_number;
pub(crate) use self::windows::{DAY, MINUTE};
pub use self::{
    ban::{BanCause, BanPeriod},
    decision::{Decision, LimitStatus, Outcome, Scope, Strikes},
    in_process::InProcessLimiter,
    redis::{
        InvalidRedisUrl, RedisCallError, RedisDeadlines, RedisHealth, RedisLimiter, RedisSettings,
        RedisSetupError, RedisTime, RedisUrl,
    },
    resilient::{
        InvalidOnRedisFailure, OnRedisFailure, ResilienceCounts, ResilienceSettings, ResilientLimiter,
        redis_metrics,
    },
    windows::WindowView,
};
use crate::client_address::ClientAddress;

/// The quota of a client address without a valid key.
pub(crate) const ADDRESS_QUOTA: Quota = Quota { per_minute: 600, per_day: 100_000 };

/// The quota of an account's requests for its own usage. The minute's number never comes to the day's.
pub(crate) const USAGE_QUOTA: Quota = Quota { per_minute: 60, per_day: 100_000 };

/// The counters that a request is counted in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// A request with a valid key. The windows belong to the account, strikes to the key.
    ApiKey {
        /// The account's identifier.
        account_id: i64,
        /// The key's identifier; not secret.
        key_id: Arc<str>,
    },
    /// The account alone, where bans are switched off: the same windows, without strikes.
    Account(i64),
    /// Requests for the account's own usage: windows apart from those of its requests, and no strikes.
    Usage(i64),
    /// A request without a valid key. An address has windows, but no strikes.
    Address(ClientAddress),
}

/// Keeps the counters. Each decision is one atomic step: of N + k concurrent requests with N left, exactly N
/// are admitted.
///
/// Refusal is a value, outage is an error.
pub trait RateLimiter: Send + Sync + fmt::Debug {
    /// Decides on one request that counts against `limit_key`, and counts it if it is admitted. Refusals
    /// before `settled_at` make nothing a strike any more, because a ban of the key or its lifting settled
    /// them; 0 if there was none.
    ///
    /// # Errors
    /// The counters cannot be reached, and the operator chose to refuse then.
    fn take<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>>;

    /// Returns what a request that counts against `limit_key` would be answered now. Nothing is counted, and
    /// no strike given.
    ///
    /// # Errors
    /// The counters cannot be reached, and the operator chose to refuse then.
    fn peek<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move { Ok(self.inspect(limit_key, quota, UnixMillis(0)).await?.decision) })
    }

    /// Returns all that is kept of the key and did not begin before `settled_at`, for its owner or an
    /// operator. Nothing is counted, and no strike given.
    ///
    /// # Errors
    /// The counters cannot be reached, and the operator chose to refuse then.
    fn inspect<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<LimitStatus, LimiterUnavailable>>;

    /// Returns `true` if decisions are made elsewhere, so that other work can be done meanwhile.
    fn is_remote(&self) -> bool {
        false
    }

    /// Names the installation, as the core does: counters that several gateways share are those of one
    /// installation. Until then such a limiter decides without them.
    fn set_installation(&self, _name: &str) {}

    /// Returns `true` if the installation was named, or does not matter.
    fn knows_installation(&self) -> bool {
        true
    }

    /// Returns `true` if decisions are made without the counters that all gateways share, because these, or
    /// those of a shard, are unreachable.
    fn is_degraded(&self) -> bool {
        false
    }
}

/// No decision could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limiter is unavailable")]
pub struct LimiterUnavailable;
