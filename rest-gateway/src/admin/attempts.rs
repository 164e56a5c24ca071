//! Failed attempts to authenticate as an operator, limited for each client address.

use std::net::IpAddr;

use petstore_clock::Clock;

use super::error::AdminError;
use crate::{
    error::ApiError,
    rate_limit::{BanCause, InProcessLimiter, LimitKey, Outcome, Quota, RateLimiter},
};

/// How many an address has.
const QUOTA: Quota = Quota { per_minute: 10, per_day: 1_000 };

/// Counts in this process: whoever serves an admin port on many gateways allows as many times the attempts,
/// each of which has one chance in 2²⁰⁰.
#[derive(Debug)]
pub(super) struct FailedAttempts(InProcessLimiter);

impl FailedAttempts {
    pub(super) fn new(clock: Clock) -> Self {
        Self(InProcessLimiter::new(clock))
    }

    /// Refuses an address that has none left.
    pub(super) async fn check(&self, address: IpAddr) -> Result<(), AdminError> {
        let decision = self.0.peek(&LimitKey::Address(address.into()), QUOTA).await;
        let decision = decision.map_err(ApiError::from)?;
        if decision.outcome == Outcome::Admitted {
            return Ok(());
        }
        Err(ApiError::OverLimit(decision, BanCause::Unknown).into())
    }

    /// One more.
    pub(super) async fn count(&self, address: IpAddr) {
        // Counters in the process do not fail; concurrent attempts may be more than there were left, and are
        // counted.
        let _ = self.0.take(&LimitKey::Address(address.into()), QUOTA).await;
    }
}
