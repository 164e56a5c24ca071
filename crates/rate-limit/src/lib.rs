//! Rate limits: the number of requests that a caller may make in a minute and in a UTC day, counted in this
//! process, in Redis or in a Redis Cluster.
//!
//! # Promises
//!
//! - **Exactness.** A request is counted in both windows or in none, in one atomic step. Of N + k concurrent
//!   requests with N left, exactly N are admitted, by any number of processes that count in one Redis.
//! - **Strikes.** An API key that keeps sending after a refusal gets strikes. [`Decision::struck_out_at`]
//!   says when they are too many, and [`BanPeriod::following`] how long a ban then lasts. Imposing it is the
//!   business of the caller, who passes the time of the last ban as `settled_at`.
//! - **Bounded memory and time.** A flood of new addresses cannot evict the counters of busy callers. A
//!   decision in Redis takes one exchange, which waiting decisions share, and no longer than
//!   [`RedisDeadlines::decision`].
//! - **Time.** Redis's own clock decides, or the [`Clock`](petstore_clock::Clock) that the caller passes. A
//!   clock that is set back neither grants a window twice nor locks a caller out for longer than two windows.
//!
//! # Failures
//!
//! A refusal is a value, and an outage is an error. [`RedisLimiter`] returns [`LimiterUnavailable`] if Redis
//! gives no answer in time, never a guess. [`ResilientLimiter`] wraps it and notices an outage after three
//! failures in a row. It then limits to this process's share, admits everything or refuses everything
//! ([`OnRedisFailure`]), and returns to Redis by itself. The counters of [`InProcessLimiter`] end with the
//! process.
//!
//! # Example
//!
//! ```
//! use petstore_clock::{Clock, UnixMillis};
//! use petstore_rate_limit::{InProcessLimiter, LimitKey, Outcome, Quota, RateLimiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), petstore_rate_limit::LimiterUnavailable> {
//! let (clock, hand) = Clock::manual(UnixMillis::from_secs(1_764_892_800));
//! let limiter = InProcessLimiter::new(clock);
//! let quota = Quota { per_minute: 2, per_day: 100 };
//! let caller = LimitKey::ApiKey { account_id: 7, key_id: "k1".into() };
//! let never = UnixMillis(0); // the key was never banned
//!
//! for left in [1, 0] {
//!     let decision = limiter.take(&caller, quota, never).await?;
//!     assert_eq!((decision.outcome, decision.minute.remaining), (Outcome::Admitted, left));
//! }
//! let refused = limiter.take(&caller, quota, never).await?;
//! assert_eq!((refused.outcome, refused.retry_after_secs()), (Outcome::RateLimited, Some(60)));
//!
//! hand.advance(std::time::Duration::from_mins(1));
//! assert_eq!(limiter.take(&caller, quota, never).await?.outcome, Outcome::Admitted);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/tower_layer.rs` limits a service with a tower layer, over Redis.
//!
//! # Inside
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

use std::sync::Arc;

use async_trait::async_trait;
use petstore_caller::client_address::ClientAddress;
pub use petstore_caller::plans::{BanCause, BanPeriod, Quota};
use petstore_clock::UnixMillis;

#[cfg(feature = "fuzzing")]
pub use self::redis::fuzz_reply;
pub use self::{
    counters::InProcessLimiter,
    decision::{DAY, Decision, LimitStatus, MINUTE, Outcome, Scope, Strikes, WindowView, put_number},
    redis::{RedisCallError, RedisDeadlines, RedisLimiter, RedisSettings, RedisUrl, redis_metrics},
    resilient::{OnRedisFailure, ResilientLimiter},
};

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
pub trait RateLimiter: Send + Sync {
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
}

/// Answer of a limiter.
pub type Decided<T> = Result<T, LimiterUnavailable>;

/// Error: no decision could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limiter is unavailable")]
pub struct LimiterUnavailable;
