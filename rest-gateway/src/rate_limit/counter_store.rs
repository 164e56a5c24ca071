//! Every caller's counters in the memory of this process: accounts and client addresses.

use std::sync::Arc;

use petstore_clock::UnixMillis;

use super::{
    LimitKey,
    counter_map::{CounterMap, Counters},
    policy::Record,
};
use crate::client_address::ClientAddress;

/// The most addresses that a shard keeps: 57,344 in all, in about 6 MiB. Anyone may hold a /48 with its
/// 65,536 networks; accounts, on the other hand, are as many as the operator made.
const ADDRESSES_PER_SHARD: usize = 896;

/// The most accounts that a shard of a bounded map keeps: 49,984 in all.
const ACCOUNTS_PER_SHARD: usize = 781;

/// The counters of every caller. Accounts and addresses have maps of their own, so that a flood of
/// unauthenticated clients cannot displace the counts of accounts.
#[derive(Debug)]
pub(super) struct CounterStore {
    accounts: CounterMap<i64>,
    /// Of questions about usage, by account.
    usage: CounterMap<i64>,
    addresses: CounterMap<ClientAddress>,
}

impl CounterStore {
    /// Keeps every account: for a limiter that is the only one that knows.
    pub(super) fn all() -> Self {
        Self::with(CounterMap::unbounded)
    }

    /// Keeps at most 50,000 accounts, preferring those that used most of their day.
    pub(super) fn at_most_50_000() -> Self {
        Self::with(|| CounterMap::bounded(ACCOUNTS_PER_SHARD))
    }

    fn with(accounts: impl Fn() -> CounterMap<i64>) -> Self {
        let addresses = CounterMap::bounded(ADDRESSES_PER_SHARD);
        Self { accounts: accounts(), usage: accounts(), addresses }
    }

    /// What is kept of the caller.
    pub(super) fn record(&self, limit_key: &LimitKey) -> Record {
        match limit_key {
            LimitKey::ApiKey { account_id, key_id } => self.accounts.get(*account_id).record(Some(key_id)),
            LimitKey::Account(id) => self.accounts.get(*id).record(None),
            LimitKey::Usage(id) => self.usage.get(*id).record(None),
            LimitKey::Address(address) => self.addresses.get(*address).record(None),
        }
    }

    /// Changes what is kept of the caller, in one atomic step. Time is read inside it, so that the steps of
    /// one caller see it in order.
    pub(super) fn update<R>(
        &self,
        limit_key: &LimitKey,
        now: impl FnOnce() -> UnixMillis,
        step: impl FnOnce(Record, UnixMillis) -> (R, Record),
    ) -> R {
        let on = |key_id: Option<&Arc<str>>, counters: &mut Counters, now| {
            let (result, next) = step(counters.record(key_id), now);
            counters.keep(key_id, next);
            result
        };
        match limit_key {
            LimitKey::ApiKey { account_id, key_id } => {
                self.accounts.update(*account_id, now, |counters, now| on(Some(key_id), counters, now))
            }
            LimitKey::Account(id) => self.accounts.update(*id, now, |counters, now| on(None, counters, now)),
            LimitKey::Usage(id) => self.usage.update(*id, now, |counters, now| on(None, counters, now)),
            LimitKey::Address(address) => {
                self.addresses.update(*address, now, |counters, now| on(None, counters, now))
            }
        }
    }
}
