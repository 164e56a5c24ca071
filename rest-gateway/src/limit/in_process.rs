//! Counters in the memory of this process.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use petstore_clock::{Clock, UnixMillis};

use super::{
    Ban, Decision, LimiterUnavailable, Quota, RateLimiter, Standing, Subject,
    counters::{CounterMap, Counters},
    law::{self, Record},
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
    /// Of questions about usage, by account.
    usage: CounterMap<i64>,
    addresses: CounterMap<ClientAddress>,
}

impl InProcessLimiter {
    /// A limiter that has counted nothing yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            accounts: CounterMap::unbounded(),
            usage: CounterMap::unbounded(),
            addresses: CounterMap::bounded(ADDRESSES_PER_SHARD),
        }
    }

    /// Changes the subject's record in one atomic step.
    fn update<R>(&self, subject: &Subject, step: impl FnOnce(Record, UnixMillis) -> (R, Record)) -> R {
        let now = || self.clock.now();
        let on = |key_id: Option<&Arc<str>>, counters: &mut Counters, now| {
            let (result, next) = step(counters.record(key_id), now);
            counters.keep(key_id, next);
            result
        };
        match subject {
            Subject::Key { account_id, key_id } => {
                self.accounts.update(*account_id, now, |counters, now| on(Some(key_id), counters, now))
            }
            Subject::Account(id) => self.accounts.update(*id, now, |counters, now| on(None, counters, now)),
            Subject::Usage(id) => self.usage.update(*id, now, |counters, now| on(None, counters, now)),
            Subject::Address(address) => {
                self.addresses.update(*address, now, |counters, now| on(None, counters, now))
            }
        }
    }

    fn record(&self, subject: &Subject) -> Record {
        match subject {
            Subject::Key { account_id, key_id } => self.accounts.get(*account_id).record(Some(key_id)),
            Subject::Account(id) => self.accounts.get(*id).record(None),
            Subject::Usage(id) => self.usage.get(*id).record(None),
            Subject::Address(address) => self.addresses.get(*address).record(None),
        }
    }
}

impl RateLimiter for InProcessLimiter {
    fn take<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move { Ok(self.update(subject, |record, now| law::take(record, quota, now))) })
    }

    fn peek<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move { Ok(law::peek(self.record(subject), quota, self.clock.now())) })
    }

    fn inspect<'a>(
        &'a self,
        subject: &'a Subject,
        quota: Quota,
    ) -> BoxFuture<'a, Result<Standing, LimiterUnavailable>> {
        Box::pin(async move { Ok(law::inspect(self.record(subject), quota, self.clock.now())) })
    }

    fn set_ban<'a>(
        &'a self,
        subject: &'a Subject,
        ban: Option<Ban>,
    ) -> BoxFuture<'a, Result<(), LimiterUnavailable>> {
        Box::pin(async move {
            if matches!(subject, Subject::Key { .. }) {
                let with_ban = |record: Record| Record { conduct: record.conduct.with_ban(ban), ..record };
                self.update(subject, |record, _| ((), with_ban(record)));
            }
            Ok(())
        })
    }

    fn shares_bans(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
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
