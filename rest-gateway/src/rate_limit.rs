//! Rate limits (docs/contract.md, 6): the number of requests that a caller may make, and the ban of a key
//! that ignores 429. Bans themselves are a state of keys: `keys::bans`.
//!
//! `policy` holds all rules, as a pure function. A [`RateLimiter`] keeps the counters and makes each decision
//! in one atomic step. `conformance_tests` is the test suite that every limiter passes.

mod abuse;
#[cfg(test)]
mod conformance_tests;
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
    decision::{BanCause, BanPeriod, Decision, LimitStatus, Outcome, Scope, Strikes},
    in_process::InProcessLimiter,
    redis::{
        InvalidRedisUrl, RedisCallError, RedisDeadlines, RedisHealth, RedisLimiter, RedisSettings,
        RedisSetupError, RedisTime, RedisUrl,
    },
    resilient::{InvalidOnRedisFailure, OnRedisFailure, ResilienceSettings, ResilientLimiter, redis_metrics},
    windows::WindowView,
};
use crate::client_address::ClientAddress;

/// Quota of a client address without a valid key.
pub(crate) const ADDRESS_QUOTA: Quota = Quota { per_minute: 600, per_day: 100_000 };

/// Quota of an account's requests for its own usage. A day at the limit of the minute
/// stays below that of the day.
pub(crate) const USAGE_QUOTA: Quota = Quota { per_minute: 60, per_day: 100_000 };

/// Counters that a request is counted in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// A request with a valid key. The windows belong to the account, strikes to the key.
    ApiKey {
        /// Identifier of the account.
        account_id: i64,
        /// Identifier of the key; not secret.
        key_id: Arc<str>,
    },
    /// The account alone, if bans are switched off: the same windows, without strikes.
    Account(i64),
    /// Requests for the account's own usage. Their windows are separate, and there are no strikes.
    Usage(i64),
    /// A request without a valid key. An address has windows, but no strikes.
    Address(ClientAddress),
}

/// Counters of callers. Each decision is one atomic step: of N + k concurrent requests with N left, exactly N
/// are admitted.
///
/// A refusal is a value, and an outage is an error.
pub trait RateLimiter: Send + Sync + fmt::Debug {
    /// Decides on one request that counts against `limit_key`, and counts it if it is admitted. Refusals
    /// before `settled_at` no longer make a request a strike, because a ban of the key or its lifting settled
    /// them; 0 if there was none.
    ///
    /// # Errors
    /// If the counters cannot be reached, and the operator chose to refuse in that case.
    fn take<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>>;

    /// Returns the decision that a request that counts against `limit_key` would get now. Nothing is counted,
    /// and no strike given.
    ///
    /// # Errors
    /// If the counters cannot be reached, and the operator chose to refuse in that case.
    fn peek<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move { Ok(self.inspect(limit_key, quota, UnixMillis(0)).await?.decision) })
    }

    /// Returns everything that is kept of the key and did not begin before `settled_at`, for its owner or an
    /// operator. Nothing is counted, and no strike given.
    ///
    /// # Errors
    /// If the counters cannot be reached, and the operator chose to refuse in that case.
    fn inspect<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<LimitStatus, LimiterUnavailable>>;

    /// Returns `true` if decisions are made remotely, so that other work can be done meanwhile.
    fn is_remote(&self) -> bool {
        false
    }

    /// Sets the name of the installation, which the core gives. Counters that several gateways share are
    /// those of one installation. Before it is set, such a limiter decides without them.
    fn set_installation(&self, _name: &str) {}

    /// Returns `true` if the installation is named, or does not matter.
    fn knows_installation(&self) -> bool {
        true
    }

    /// Returns `true` if decisions are made without the counters that all gateways share, because these, or
    /// those of a shard, are unreachable.
    fn is_degraded(&self) -> bool {
        false
    }
}

/// Error: no decision could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limiter is unavailable")]
pub struct LimiterUnavailable;
