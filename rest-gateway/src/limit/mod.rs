//! Rate limits (specification §8): how many requests a caller may make, and what becomes of one who ignores 429.
//!
//! `law` is the whole law as a pure function. A [`RateLimiter`] keeps the counters and makes each decision one
//! atomic step; `conformance` is the suite that every limiter passes.

mod conduct;
#[cfg(test)]
mod conformance;
mod counters;
mod decision;
mod in_process;
mod law;
mod quota;
mod windows;

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

pub use self::{
    decision::{Decision, Outcome, Scope, WindowView},
    in_process::InProcessLimiter,
    quota::Quota,
};
use crate::client_address::ClientAddress;

/// Whose request it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One that carries a valid key. The windows belong to the account, strikes and bans to the key.
    Key {
        /// The account's identifier.
        account_id: i64,
        /// The key's identifier; not secret.
        key_id: Arc<str>,
    },
    /// One without a valid key. An address has windows, but is never struck or banned.
    Address(ClientAddress),
}

/// Keeps the counters. Each decision is one atomic step: of N + k concurrent requests with N left, exactly N are
/// admitted.
///
/// Refusal is a value, outage is an error.
pub trait RateLimiter: Send + Sync + fmt::Debug {
    /// Decides on one request of `subject` and counts it if it is admitted.
    ///
    /// # Errors
    /// The counters cannot be reached, and the operator chose to refuse then.
    fn take<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>>;

    /// What a request of `subject` would be answered now. Nothing is counted, and no strike given.
    ///
    /// # Errors
    /// The counters cannot be reached, and the operator chose to refuse then.
    fn peek<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>>;
}

/// No decision could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limiter is away")]
pub struct LimiterUnavailable;
