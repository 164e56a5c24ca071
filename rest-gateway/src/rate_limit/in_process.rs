//! Counters in the memory of this process.

use async_trait::async_trait;
use petstore_clock::{Clock, UnixMillis};

use super::{Decided, Decision, LimitKey, LimitStatus, Quota, RateLimiter, counters::CounterStore, policy};

/// Limiter for one gateway alone: windows and strikes live and end with the process.
#[derive(Debug)]
pub struct InProcessLimiter {
    clock: Clock,
    counters: CounterStore,
}

impl InProcessLimiter {
    /// Creates a limiter that has counted nothing yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, counters: CounterStore::unbounded() }
    }
}

#[async_trait]
impl RateLimiter for InProcessLimiter {
    async fn take(&self, caller: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<Decision> {
        Ok(self.counters.update(
            caller,
            || self.clock.now(),
            |record, now| policy::take(record, quota, settled_at, now),
        ))
    }

    async fn inspect(&self, caller: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<LimitStatus> {
        Ok(policy::inspect(self.counters.record(caller), quota, settled_at, self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rate_limit::conformance_tests::{self, LimiterUnderTest};

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_limiter_passes_the_conformance_suite() {
        let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
        let limiter = Arc::new(InProcessLimiter::new(clock));
        assert!(!limiter.is_remote() && !limiter.is_degraded() && limiter.knows_installation());
        conformance_tests::suite(&LimiterUnderTest::new(limiter, move |by| hand.advance(by), 0)).await;
    }

    #[tokio::test]
    async fn a_clock_set_back_does_not_lock_a_caller_out() {
        let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
        let limiter = InProcessLimiter::new(clock);
        let quota = Quota { per_minute: 1, per_day: 5 };
        let limit_key = LimitKey::ApiKey { account_id: 1, key_id: "key".into() };
        assert!(limiter.take(&limit_key, quota, UnixMillis(0)).await.unwrap().retry_after_secs().is_none());
        hand.set(UnixMillis(1_795_100_000_000));
        assert!(limiter.take(&limit_key, quota, UnixMillis(0)).await.unwrap().retry_after_secs().is_none());
    }
}
