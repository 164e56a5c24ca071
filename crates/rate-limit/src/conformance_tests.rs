//! Conformance suite that every limiter passes. It tests what a limiter adds to the policy: counting for the
//! right caller, in one atomic step, and by its clock.

mod strikes;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::future;
use petstore_clock::UnixMillis;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use super::{
    Decision, LimitKey, LimitStatus, Outcome, Quota, RateLimiter,
    policy::{self, AbuseState, Record, Windows},
};

/// Quota that no test uses up by accident.
const AMPLE: Quota = Quota { per_minute: 1_000, per_day: 10_000 };

/// Time of a settlement that never happened.
const NEVER: UnixMillis = UnixMillis(0);

/// Limiter with control over its clock. The clock must not advance, or advance at the rate of real time.
pub(crate) struct LimiterUnderTest {
    limiter: Arc<dyn RateLimiter>,
    advance: Box<dyn Fn(Duration) + Send + Sync>,
    last_account: AtomicI64,
    traces: usize,
}

impl LimiterUnderTest {
    /// Creates one whose accounts begin after `last_account`: a limiter that others use too needs unused
    /// accounts.
    pub(crate) fn new(
        limiter: Arc<dyn RateLimiter>,
        advance: impl Fn(Duration) + Send + Sync + 'static,
        last_account: i64,
    ) -> Self {
        Self { limiter, advance: Box::new(advance), last_account: AtomicI64::new(last_account), traces: 5 }
    }

    /// Plays fewer random traces, for limiters that answer over a network.
    pub(crate) fn with_traces(self, traces: usize) -> Self {
        Self { traces, ..self }
    }

    fn new_account(&self) -> i64 {
        self.last_account.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the key of a new account.
    fn new_key(&self) -> LimitKey {
        key(self.new_account(), "first")
    }

    fn new_address(&self) -> LimitKey {
        let network = u128::from(self.new_account().cast_unsigned()) << 64;
        LimitKey::Address(IpAddr::V6(Ipv6Addr::from_bits(network)).into())
    }

    async fn take(&self, limit_key: &LimitKey, quota: Quota) -> Decision {
        self.take_settled(limit_key, quota, NEVER).await
    }

    async fn take_settled(&self, limit_key: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decision {
        self.limiter.take(limit_key, quota, settled_at).await.expect("the limiter under test is up")
    }

    async fn take_many(&self, count: u64, limit_key: &LimitKey, quota: Quota) -> Decision {
        for _ in 1..count {
            self.take(limit_key, quota).await;
        }
        self.take(limit_key, quota).await
    }

    async fn peek(&self, limit_key: &LimitKey, quota: Quota) -> Decision {
        self.limiter.peek(limit_key, quota).await.expect("the limiter under test is up")
    }

    async fn inspect(&self, limit_key: &LimitKey) -> LimitStatus {
        self.limiter.inspect(limit_key, AMPLE, NEVER).await.expect("the limiter under test is up")
    }

    fn waits(&self, duration: Duration) {
        (self.advance)(duration);
    }
}

pub(crate) fn key(account_id: i64, key_id: &str) -> LimitKey {
    LimitKey::ApiKey { account_id, key_id: format!("{account_id}/{key_id}").into() }
}

/// Runs the whole suite. Must be run on several threads, or concurrency is not tested.
pub(crate) async fn suite(tested: &LimiterUnderTest) {
    concurrent_requests_are_admitted_up_to_the_limit(tested).await;
    strikes::too_many_strikes_are_reported_for_the_key_with_their_time(tested).await;
    strikes::settled_refusals_are_no_strikes(tested).await;
    decisions_are_those_of_the_policy(tested).await;
}

async fn concurrent_requests_are_admitted_up_to_the_limit(tested: &LimiterUnderTest) {
    for quota in [Quota { per_minute: 100, per_day: 1_000 }, Quota { per_minute: 1_000, per_day: 100 }] {
        let account = tested.new_account();
        let callers = (0..8).map(|caller| {
            let limiter = Arc::clone(&tested.limiter);
            tokio::spawn(async move {
                let limit_key = key(account, &format!("{}", caller % 2));
                let takes = (0..100).map(|_| limiter.take(&limit_key, quota, NEVER));
                let decisions = future::try_join_all(takes).await.expect("the limiter under test is up");
                let admitted = decisions.iter().filter(|it| it.outcome == Outcome::Admitted);
                u32::try_from(admitted.count()).unwrap()
            })
        });
        let admitted: u32 = future::join_all(callers).await.into_iter().map(Result::unwrap).sum();
        assert_eq!(admitted, 100);
    }
}

/// Plays random traces of a few callers through the limiter and, with the limiter's own time, through the
/// policy.
async fn decisions_are_those_of_the_policy(tested: &LimiterUnderTest) {
    let quota = (1..20u64, 1..200u64).prop_map(|(per_minute, per_day)| Quota { per_minute, per_day });
    let pause = prop_oneof![500 => Just(0), 200 => 0..3_000u64, 5 => 0..90_000u64, 1 => 0..50_000_000u64];
    let plans = prop::collection::vec(quota, 2);
    let requests = prop::collection::vec((0..7usize, pause, 0..100u8, 0..4u8), 3_000);
    let mut random = TestRunner::new_with_rng(Config::default(), TestRunner::deterministic().new_rng());
    let mut decisions = Vec::new();
    for _ in 0..tested.traces {
        let (mut plans, requests) = (&plans, &requests).new_tree(&mut random).unwrap().current();
        let (first, second) = (tested.new_account(), tested.new_account());
        let callers = [
            key(first, "a"),
            key(first, "b"),
            key(second, "a"),
            tested.new_address(),
            tested.new_address(),
            LimitKey::Account(first),
            LimitKey::Usage(first),
        ];
        let (mut ledger, mut settled_at) = (Ledger::default(), [NEVER; 7]);
        for (caller, pause, plan_change, peek) in requests {
            tested.waits(Duration::from_millis(pause));
            if plan_change == 0 {
                plans.swap(0, 1);
            }
            let (limit_key, quota) = (&callers[caller], plans[0]);
            let record = ledger.record(limit_key);
            if peek == 0 {
                let decision = tested.peek(limit_key, quota).await;
                assert_eq!(decision, policy::inspect(record, quota, NEVER, decision.now).decision);
                let kept = tested.limiter.inspect(limit_key, quota, settled_at[caller]).await;
                let kept = kept.expect("the limiter under test is up");
                assert_eq!(kept, policy::inspect(record, quota, settled_at[caller], kept.decision.now));
            }
            let decision = tested.take_settled(limit_key, quota, settled_at[caller]).await;
            let (expected, next) = policy::take(record, quota, settled_at[caller], decision.now);
            assert_eq!(decision, expected);
            ledger.keep(limit_key, next);
            if (plan_change, peek) == (1, 1) {
                settled_at[caller] = decision.now;
            }
            decisions.push(decision);
        }
    }
    // One trace alone need not have too many strikes, which `strikes` tests anyway.
    if tested.traces > 1 {
        assert_wild(&decisions);
    }
}

/// Panics unless the decisions include every kind of decision.
pub(crate) fn assert_wild(decisions: &[Decision]) {
    for outcome in [Outcome::Admitted, Outcome::RateLimited, Outcome::QuotaExceeded] {
        assert!(decisions.iter().any(|decision| decision.outcome == outcome), "the traces are too tame");
    }
    assert!(decisions.iter().any(|decision| decision.struck_out_at.is_some()), "the traces are too tame");
}

/// Reference implementation of the records: windows by account or address, abuse by key.
#[derive(Default)]
pub(crate) struct Ledger {
    windows: HashMap<String, Windows>,
    abuse: HashMap<LimitKey, AbuseState>,
}

impl Ledger {
    pub(crate) fn record(&self, limit_key: &LimitKey) -> Record {
        Record {
            windows: self.windows.get(&owner(limit_key)).copied().unwrap_or_default(),
            abuse: self.abuse.get(limit_key).copied().unwrap_or_default(),
        }
    }

    /// Decides on one request.
    pub(crate) fn take(
        &mut self,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
        now: UnixMillis,
    ) -> Decision {
        let (decision, next) = policy::take(self.record(limit_key), quota, settled_at, now);
        self.keep(limit_key, next);
        decision
    }

    pub(crate) fn keep(&mut self, limit_key: &LimitKey, record: Record) {
        self.windows.insert(owner(limit_key), record.windows);
        if matches!(limit_key, LimitKey::ApiKey { .. }) {
            self.abuse.insert(limit_key.clone(), record.abuse);
        }
    }
}

fn owner(limit_key: &LimitKey) -> String {
    match limit_key {
        LimitKey::ApiKey { account_id, .. } | LimitKey::Account(account_id) => {
            format!("account {account_id}")
        }
        LimitKey::Usage(account_id) => format!("usage of {account_id}"),
        LimitKey::Address(address) => format!("address {address}"),
    }
}
