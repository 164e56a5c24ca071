//! Rate limits (docs/contract.md, 6): the number of requests that a caller may make, and the ban of a key
//! that ignores 429. Bans themselves are a state of keys: `keys::bans`.
//!
//! `policy` holds all rules, as a pure function. A [`RateLimiter`] keeps the counters and makes each decision
//! in one atomic step. `conformance_tests` is the test suite that every limiter passes.

#[cfg(test)]
mod conformance_tests;
mod counters;
mod decision;
mod policy;
mod redis;
mod resilient;
mod windows;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use petstore_clock::UnixMillis;
pub use petstore_plans::Quota;
use petstore_telemetry::parts::FaultCause;

pub(crate) use self::decision::put_number;
#[cfg(feature = "fuzzing")]
pub use self::redis::fuzz_reply;
pub(crate) use self::windows::{DAY, MINUTE};
pub use self::{
    counters::InProcessLimiter,
    decision::{BanCause, BanPeriod, Decision, LimitStatus, Outcome, Scope, Strikes},
    redis::{RedisCallError, RedisDeadlines, RedisLimiter, RedisSettings, RedisUrl},
    resilient::{OnRedisFailure, ResilienceSettings, ResilientLimiter, redis_metrics},
    windows::WindowView,
};
use petstore_client_address::ClientAddress;

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
/// A refusal is a value, and an outage is an error: the counters cannot be reached, and the operator chose to
/// refuse in that case.
#[async_trait]
pub trait RateLimiter: Send + Sync + fmt::Debug {
    /// Decides on one request of `caller`, and counts it if it is admitted. Refusals before `settled_at` no
    /// longer make a request a strike, because a ban of the key or its lifting settled them; 0 if there was
    /// none.
    async fn take(&self, caller: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<Decision>;

    /// Returns the decision that a request of `caller` would get now. Nothing is counted, and no strike is
    /// added.
    async fn peek(&self, caller: &LimitKey, quota: Quota) -> Decided<Decision> {
        Ok(self.inspect(caller, quota, UnixMillis(0)).await?.decision)
    }

    /// Returns everything that is kept of `caller` and did not begin before `settled_at`, for its owner or an
    /// operator. Nothing is counted, and no strike is added.
    async fn inspect(&self, caller: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<LimitStatus>;

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

    /// Returns what happens to requests if decisions are made without the counters that all gateways share,
    /// because these, or those of a shard, are unreachable.
    fn fault(&self) -> Option<FaultCause> {
        None
    }
}

/// Answer of a limiter.
pub type Decided<T> = Result<T, LimiterUnavailable>;

/// Error: no decision could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limiter is unavailable")]
pub struct LimiterUnavailable;
