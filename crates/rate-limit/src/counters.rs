//! Counters in the memory of this process, for accounts and client addresses, and the limiter that has no
//! others. They are in bounded maps, split so that callers seldom wait for each other.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use petstore_caller::client_address::ClientAddress;
use petstore_clock::{Clock, UnixMillis};

use super::{
    Decided, Decision, LimitKey, LimitStatus, Quota, RateLimiter,
    policy::{self, AbuseState, Record, Windows},
};

/// Number of locks of a map: enough that two threads seldom contend for one.
const SHARDS: usize = 64;

/// Number of callers in a shard before it is first swept for counters that are over.
const FIRST_SWEEP: usize = 64;

/// Limiter for one gateway alone: windows and strikes live and end with the process.
pub struct InProcessLimiter {
    clock: Clock,
    counters: CounterStore,
}

impl InProcessLimiter {
    /// Creates a limiter that has counted nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, counters: CounterStore::unbounded() }
    }
}

#[async_trait]
impl RateLimiter for InProcessLimiter {
    async fn take(&self, caller: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<Decision> {
        let step = |record, now| policy::take(record, quota, settled_at, now);
        Ok(self.counters.update(caller, || self.clock.now(), step))
    }

    async fn inspect(&self, caller: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decided<LimitStatus> {
        Ok(policy::inspect(self.counters.record(caller), quota, settled_at, self.clock.now()))
    }
}

/// Counters of every caller. Accounts and addresses have separate maps, so that a flood of unauthenticated
/// clients cannot evict the counts of accounts.
pub(super) struct CounterStore {
    accounts: CounterMap<i64>,
    /// Requests for usage, by account.
    usage: CounterMap<i64>,
    addresses: CounterMap<ClientAddress>,
}

impl CounterStore {
    /// Returns a store of every account, for a limiter without any other counters.
    pub(super) fn unbounded() -> Self {
        Self::with(|| CounterMap::bounded(usize::MAX))
    }

    /// Returns a store of at most 50,000 accounts, which keeps the accounts that used most of their day.
    pub(super) fn bounded() -> Self {
        Self::with(|| CounterMap::bounded(50_000 / SHARDS))
    }

    fn with(accounts: impl Fn() -> CounterMap<i64>) -> Self {
        // In about 6 MiB. Any client may hold a /48 with its 65,536 networks, while only the operator creates
        // accounts.
        let addresses = CounterMap::bounded(57_344 / SHARDS);
        Self { accounts: accounts(), usage: accounts(), addresses }
    }

    /// Returns the caller's record.
    pub(super) fn record(&self, limit_key: &LimitKey) -> Record {
        match limit_key {
            LimitKey::ApiKey { account_id, key_id } => self.accounts.get(*account_id).record(Some(key_id)),
            LimitKey::Account(id) => self.accounts.get(*id).record(None),
            LimitKey::Usage(id) => self.usage.get(*id).record(None),
            LimitKey::Address(address) => self.addresses.get(*address).record(None),
        }
    }

    /// Changes the caller's record in one atomic step. Time is read inside it, so that the steps of one
    /// caller see it in order.
    pub(super) fn update<R>(
        &self,
        limit_key: &LimitKey,
        now: impl FnOnce() -> UnixMillis,
        step: impl FnOnce(Record, UnixMillis) -> (R, Record),
    ) -> R {
        let on = |key_id: Option<&Arc<str>>, counters: &mut Counters, now| {
            let (result, next) = step(counters.record(key_id), now);
            counters.keep(key_id, next, now.0);
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
/// Counters of one account or address.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    windows: Windows,
    /// Abuse states of recently refused keys: seldom more than one.
    abuse: Vec<(Arc<str>, AbuseState)>,
}

impl Counters {
    /// Returns the record of the account's key, or of the address if there is no key.
    pub(super) fn record(&self, key_id: Option<&Arc<str>>) -> Record {
        let abuse = key_id.and_then(|key_id| self.abuse.iter().find(|(of, _)| of == key_id));
        Record { windows: self.windows, abuse: abuse.map(|(_, abuse)| *abuse).unwrap_or_default() }
    }

    /// Stores the record for the next request.
    pub(super) fn keep(&mut self, key_id: Option<&Arc<str>>, Record { windows, abuse }: Record, now: u64) {
        self.windows = windows;
        let Some(key_id) = key_id else { return };
        self.abuse.retain(|(of, abuse)| of != key_id && matters(abuse, now));
        if abuse != AbuseState::default() {
            self.abuse.push((Arc::clone(key_id), abuse));
        }
    }

    /// Returns `true` if evicting these counters changes no decision.
    fn is_over(&self, now: u64) -> bool {
        self.windows.at(now) == Windows::default() && !self.abuse.iter().any(|(_, abuse)| matters(abuse, now))
    }
}

fn matters(abuse: &AbuseState, now: u64) -> bool {
    abuse.at(now, UnixMillis(0)) != AbuseState::default()
}

/// Counters of every caller of one kind.
pub(super) struct CounterMap<K> {
    hasher: RandomState,
    shards: Box<[Mutex<CounterShard<K>>]>,
    /// Maximum number of callers in a shard.
    capacity: usize,
}

struct CounterShard<K> {
    counters: HashMap<K, Counters>,
    sweep_at: usize,
}

impl<K: Copy + Eq + Hash> CounterMap<K> {
    /// Returns a map of at most `capacity` callers a shard. A full shard first evicts counters that are over,
    /// and then the callers who used least of their day, so a flood of new callers cannot evict the count of
    /// a busy one.
    pub(super) fn bounded(capacity: usize) -> Self {
        let shard =
            || Mutex::new(CounterShard { counters: HashMap::new(), sweep_at: FIRST_SWEEP.min(capacity) });
        Self { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| shard()).collect(), capacity }
    }

    /// Returns the caller's counters.
    pub(super) fn get(&self, key: K) -> Counters {
        self.shard(key).counters.get(&key).cloned().unwrap_or_default()
    }

    /// Changes the caller's counters in one atomic step. Time is read inside it, so that the steps of
    /// one caller see it in order.
    pub(super) fn update<R>(
        &self,
        key: K,
        now: impl FnOnce() -> UnixMillis,
        step: impl FnOnce(&mut Counters, UnixMillis) -> R,
    ) -> R {
        let mut shard = self.shard(key);
        let now = now();
        if shard.counters.len() >= shard.sweep_at && !shard.counters.contains_key(&key) {
            shard.sweep(now.0, self.capacity);
        }
        step(shard.counters.entry(key).or_default(), now)
    }

    fn shard(&self, key: K) -> MutexGuard<'_, CounterShard<K>> {
        // Never held over an await: no future is made while it is held. The remainder is below SHARDS.
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
        let index = self.hasher.hash_one(key) as usize % self.shards.len();
        self.shards[index].lock()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().counters.len()).sum()
    }
}

impl<K: Copy + Eq + Hash> CounterShard<K> {
    /// Evicts counters that are over. Looks at every entry, and is not repeated before the shard has doubled,
    /// or grown by a quarter of its capacity, so that the cost of an insertion is constant.
    fn sweep(&mut self, now: u64, capacity: usize) {
        self.counters.retain(|_, counters| !counters.is_over(now));
        if self.counters.len() > capacity / 4 * 3 {
            self.forget_least_used(capacity / 2);
        }
        self.sweep_at = self.counters.len().saturating_mul(2).max(FIRST_SWEEP).min(capacity);
    }

    fn forget_least_used(&mut self, keep: usize) {
        let mut by_use: Vec<(u64, K)> =
            self.counters.iter().map(|(key, counters)| (counters.windows.day.used, *key)).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        let surplus = by_use.len().saturating_sub(keep);
        for (_, key) in by_use.iter().take(surplus) {
            self.counters.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Quota,
        conformance_tests::{self, LimiterUnderTest},
        policy::{self, TimeSpan},
    };

    const QUOTA: Quota = Quota { per_minute: 100, per_day: 1_000 };

    fn take(map: &CounterMap<u32>, caller: u32, now: u64) -> u64 {
        map.update(
            caller,
            || UnixMillis(now),
            |counters, now| {
                let (decision, next) = policy::take(counters.record(None), QUOTA, UnixMillis(0), now);
                counters.keep(None, next, now.0);
                decision.day.remaining
            },
        )
    }

    #[test]
    fn a_flood_of_callers_is_bounded_and_does_not_evict_a_busy_one() {
        let map = CounterMap::bounded(100);
        for _ in 0..10 {
            take(&map, 0, 5);
        }
        for caller in 1..100_000 {
            take(&map, caller, 5);
        }
        assert!(map.len() <= SHARDS * 100, "{} are kept", map.len());
        assert_eq!(take(&map, 0, 5), 989);
    }

    #[test]
    fn a_bounded_store_keeps_at_most_50_000_accounts() {
        let store = CounterStore::bounded();
        for account in 0..100_000 {
            store.update(
                &LimitKey::Account(account),
                || UnixMillis(5),
                |record, now| policy::take(record, QUOTA, UnixMillis(0), now),
            );
        }
        assert!((20_000..=50_000).contains(&store.accounts.len()), "{} are kept", store.accounts.len());
    }

    #[test]
    fn counters_are_over_when_windows_and_strikes_are() {
        let until_20 = TimeSpan { from: 10, until: 20 };
        let mut counters = Counters::default();
        counters.keep(
            Some(&"k".into()),
            Record {
                abuse: AbuseState { striking: until_20, strikes: 1, ..Default::default() },
                ..Default::default()
            },
            10,
        );
        assert!(!counters.is_over(19) && counters.is_over(20));
        counters.windows = counters.windows.plus_one(15);
        assert!(!counters.is_over(20));
    }

    #[test]
    fn expired_state_is_evicted_as_new_callers_arrive() {
        let map = CounterMap::bounded(usize::MAX);
        for caller in 0..20_000 {
            take(&map, caller, 5);
        }
        for caller in 20_000..60_000 {
            take(&map, caller, 5 + 2 * 86_400_000);
        }
        assert!(map.len() < 45_000, "{} are kept", map.len());
    }

    #[test]
    fn a_keys_abuse_state_is_kept_only_while_there_is_any() {
        let key: Arc<str> = "k".into();
        let mut counters = Counters::default();
        let striking = TimeSpan { from: 10, until: 20 };
        let struck = Record {
            abuse: AbuseState { striking, strikes: 3, ..AbuseState::default() },
            ..Record::default()
        };
        counters.keep(Some(&key), struck, 10);
        assert_eq!(counters.record(Some(&key)), struck);
        assert_eq!(counters.record(Some(&"another".into())), Record::default());
        counters.keep(Some(&key), Record::default(), 10);
        assert!(counters.abuse.is_empty());

        counters.keep(Some(&key), struck, 10);
        counters.keep(Some(&"its successor".into()), struck, 20);
        assert_eq!(counters.record(Some(&key)), Record::default(), "a rotated key's state ends with it");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_limiter_passes_the_conformance_suite() {
        let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
        let limiter = Arc::new(InProcessLimiter::new(clock));
        conformance_tests::suite(&LimiterUnderTest::new(limiter, move |by| hand.advance(by), 0)).await;
    }
}
