//! Failed attempts to authenticate as an operator, limited for each client address.

use std::{net::IpAddr, time::Duration};

use moka::future::Cache;
use petstore_api_key::{KeyDigest, OperatorToken};
use petstore_clock::Clock;

use super::error::AdminError;
use crate::{
    error::ApiError,
    rate_limit::{BanCause, InProcessLimiter, LimitKey, Outcome, Quota, RateLimiter},
};

/// How many an address has.
const QUOTA: Quota = Quota { per_minute: 10, per_day: 1_000 };

/// How long a token that the core accepted is heard from addresses that have none left.
const ACCEPTED_FOR: Duration = Duration::from_hours(8);

/// The most tokens that are remembered so, by their digest.
const MAX_ACCEPTED: u64 = 1_000;

/// Counts in this process: whoever serves an admin port on many gateways allows as many times the attempts,
/// each of which has one chance in 2¹⁷⁸.
///
/// A token that the core accepted not long ago is heard whatever its address has left, so that nobody is shut
/// out by what others send from behind the same proxy. That helps no guess: one is never such a token, and
/// the core goes on judging each of them.
#[derive(Debug)]
pub(super) struct FailedAttempts {
    limiter: InProcessLimiter,
    accepted: Cache<KeyDigest, ()>,
}

impl FailedAttempts {
    pub(super) fn new(clock: Clock) -> Self {
        let accepted = Cache::builder().max_capacity(MAX_ACCEPTED).time_to_live(ACCEPTED_FOR).build();
        Self { limiter: InProcessLimiter::new(clock), accepted }
    }

    /// Refuses an address that has none left, unless the token is known to be right.
    pub(super) async fn check(
        &self,
        address: IpAddr,
        token: Option<&OperatorToken>,
    ) -> Result<(), AdminError> {
        let decision = self.limiter.peek(&LimitKey::Address(address.into()), QUOTA).await;
        let decision = decision.map_err(ApiError::from)?;
        if decision.outcome == Outcome::Admitted {
            return Ok(());
        }
        match token {
            Some(token) if self.accepted.contains_key(&token.digest()) => Ok(()),
            Some(_) | None => Err(ApiError::OverLimit(decision, BanCause::Unknown).into()),
        }
    }

    /// The core accepted the token.
    pub(super) async fn accepted(&self, token: &OperatorToken) {
        self.accepted.insert(token.digest(), ()).await;
    }

    /// The core refused the token: one attempt less.
    pub(super) async fn failed(&self, address: IpAddr, token: Option<&OperatorToken>) {
        if let Some(token) = token {
            self.accepted.invalidate(&token.digest()).await; // it was revoked
        }
        // Counters in the process do not fail; concurrent attempts may be more than there were left, and are
        // counted.
        let _ = self.limiter.take(&LimitKey::Address(address.into()), QUOTA).await;
    }
}
