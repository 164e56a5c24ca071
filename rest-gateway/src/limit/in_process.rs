//! Counters in the memory of this process.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use petstore_clock::Clock;

use super::{
    Decision, LimiterUnavailable, Quota, RateLimiter, Subject,
    counters::{CounterMap, Counters},
    law,
};
use crate::client_address::ClientAddress;

/// The most addresses that a shard keeps: 57,344 in all, in about 6 MiB. Anyone may hold a /48 with its 65,536
/// networks; accounts, on the other hand, are as many as the operator made.
const ADDRESSES_PER_SHARD: usize = 896;

/// A limiter for one gateway alone: windows, strikes and bans live and end with the process.
#[derive(Debug)]
pub struct InProcessLimiter {
    clock: Clock,
    accounts: CounterMap<i64>,
    addresses: CounterMap<ClientAddress>,
}

impl InProcessLimiter {
    /// A limiter that has counted nothing yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, accounts: CounterMap::unbounded(), addresses: CounterMap::bounded(ADDRESSES_PER_SHARD) }
    }

    fn take_now(&self, subject: &Subject, quota: Quota) -> Decision {
        let now = || self.clock.now();
        let step = |counters: &mut Counters, key_id: Option<&Arc<str>>, now| {
            let (decision, next) = law::take(counters.record(key_id), quota, now);
            counters.keep(key_id, next);
            decision
        };
        match subject {
            Subject::Key { account_id, key_id } => {
                self.accounts.update(*account_id, now, |counters, now| step(counters, Some(key_id), now))
            }
            Subject::Address(address) => {
                self.addresses.update(*address, now, |counters, now| step(counters, None, now))
            }
        }
    }

    fn peek_now(&self, subject: &Subject, quota: Quota) -> Decision {
        let record = match subject {
            Subject::Key { account_id, key_id } => self.accounts.get(*account_id).record(Some(key_id)),
            Subject::Address(address) => self.addresses.get(*address).record(None),
        };
        law::peek(record, quota, self.clock.now())
    }
}

impl RateLimiter for InProcessLimiter {
    fn take<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move { Ok(self.take_now(subject, quota)) })
    }

    fn peek<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move { Ok(self.peek_now(subject, quota)) })
    }
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;

    use super::*;
    use crate::limit::conformance::{self, Rig};

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn it_passes_the_suite_of_every_limiter() {
        let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
        let limiter = Arc::new(InProcessLimiter::new(clock));
        conformance::suite(&Rig::new(limiter, move |by| hand.advance(by), 0)).await;
    }

    #[tokio::test]
    async fn a_clock_set_back_does_not_lock_a_caller_out() {
        let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
        let limiter = InProcessLimiter::new(clock);
        let quota = Quota { per_minute: 1, per_day: 5 };
        let subject = Subject::Key { account_id: 1, key_id: "key".into() };
        assert!(limiter.take(&subject, quota).await.unwrap().retry_after_secs().is_none());
        hand.set(UnixMillis(1_795_100_000_000));
        assert!(limiter.take(&subject, quota).await.unwrap().retry_after_secs().is_none());
    }
}
