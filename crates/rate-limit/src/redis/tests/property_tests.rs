//! Tests that play one sequence of requests through the policy, the limiter in this process, and Redis.

use std::{net::IpAddr, time::Duration};

use futures_util::future::join_all;
use petstore_clock::{Clock, UnixMillis};
use petstore_test_servers::servers::{RedisOptions, RedisServer};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use super::patient_limiter_by;
use crate::{
    InProcessLimiter, LimitKey, Outcome, Quota, RateLimiter,
    conformance_tests::{Ledger, assert_wild, key},
    policy,
};

const START: u64 = 1_795_200_000_000;

/// Step of a sequence.
#[derive(Clone, Debug)]
enum Event {
    /// Requests of the caller, with their number.
    Requests(usize, u8),
    /// Requests of these callers that wait at the same time, so that one call decides on them.
    AtOnce(Vec<usize>),
    /// Advance of time, in milliseconds.
    Wait(u64),
    /// Step of the clock backwards, in milliseconds. It goes back no more than a minute from the latest time
    /// that it showed, because policy and limiters agree only within their tolerance.
    SetBack(u64),
    /// The account gets another plan.
    Plan(Quota),
    /// Settlement of the key's refusals that are older than this number of milliseconds.
    Settle(usize, u64),
    /// Redis forgets its scripts.
    ForgetScripts,
    /// Redis loses all data, and the other limiters theirs.
    LoseAll,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let plan = (1..20u64, 1..200u64).prop_map(|(per_minute, per_day)| Quota { per_minute, per_day });
    // Times at which one millisecond decides: the grace period, a minute and its Retry-After, strikes, the
    // day.
    let edges = [1_000, 59_000, 60_000, 600_000, 86_400_000].map(|edge| [edge - 1, edge]);
    let edges = prop::sample::select(edges.concat());
    let wait = prop_oneof![20 => 0..3_000u64, 15 => edges, 5 => 0..90_000u64, 1 => 0..200_000_000u64];
    let back = prop_oneof![1..60_000u64, Just(60_000u64)];
    vec(
        prop_oneof![
            60 => (0..7usize, 1..40u8).prop_map(|(caller, count)| Event::Requests(caller, count)),
            20 => vec(0..7usize, 2..40).prop_map(Event::AtOnce),
            30 => wait.prop_map(Event::Wait),
            8 => back.prop_map(Event::SetBack),
            4 => plan.prop_map(Event::Plan),
            4 => (0..3usize, 0..3_000u64).prop_map(|(caller, millis)| Event::Settle(caller, millis)),
            1 => Just(Event::ForgetScripts),
            1 => Just(Event::LoseAll),
        ],
        150,
    )
}

#[tokio::test]
async fn the_policy_and_both_limiters_decide_every_trace_equally() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (clock, hand) = Clock::manual(UnixMillis(START));
    let in_redis = patient_limiter_by(&[redis.url()], clock.clone());
    let mut random = TestRunner::new_with_rng(Config::default(), TestRunner::deterministic().new_rng());
    let mut decisions = Vec::new();
    for trace in 0..8 {
        let events = events().new_tree(&mut random).unwrap().current();
        let callers = callers(trace);
        let mut ledger = Ledger::default();
        let mut in_process = InProcessLimiter::new(clock.clone());
        let (mut quota, mut latest) = (Quota { per_minute: 5, per_day: 50 }, START);
        let mut settled_at = [UnixMillis(0); 7];
        hand.set(UnixMillis(START));
        for event in events {
            let now = clock.now();
            latest = latest.max(now.0);
            match event {
                Event::AtOnce(order) => {
                    let mut expected = Vec::new();
                    for &caller in &order {
                        let (limit_key, settled_at) = (&callers[caller], settled_at[caller]);
                        let decision = ledger.take(limit_key, quota, settled_at, now);
                        assert_eq!(in_process.take(limit_key, quota, settled_at).await, Ok(decision));
                        expected.push(Ok(decision));
                    }
                    let taken = order
                        .iter()
                        .map(|&caller| in_redis.take(&callers[caller], quota, settled_at[caller]));
                    assert_eq!(join_all(taken).await, expected);
                }
                Event::Requests(caller, count) => {
                    let (limit_key, settled_at) = (&callers[caller], settled_at[caller]);
                    for _ in 0..count {
                        let expected = ledger.take(limit_key, quota, settled_at, now);
                        assert_eq!(in_process.take(limit_key, quota, settled_at).await, Ok(expected));
                        assert_eq!(in_redis.take(limit_key, quota, settled_at).await, Ok(expected));
                        decisions.push(expected);
                    }
                    let expected = policy::inspect(ledger.record(limit_key), quota, settled_at, now);
                    assert_eq!(in_process.inspect(limit_key, quota, settled_at).await, Ok(expected));
                    assert_eq!(in_redis.inspect(limit_key, quota, settled_at).await, Ok(expected));
                    assert_eq!(in_redis.peek(limit_key, quota).await, Ok(expected.decision));
                }
                Event::Wait(millis) => hand.advance(Duration::from_millis(millis)),
                Event::SetBack(millis) => {
                    hand.set(UnixMillis((now.0 - millis).max(latest - 60_000).max(START)));
                }
                Event::Plan(plan) => quota = plan,
                Event::Settle(caller, millis) => {
                    settled_at[caller] = now.minus(Duration::from_millis(millis));
                }
                Event::ForgetScripts => drop(redis.cli(&["SCRIPT", "FLUSH"]).await),
                Event::LoseAll => {
                    redis.cli(&["FLUSHALL"]).await;
                    (ledger, in_process) = (Ledger::default(), InProcessLimiter::new(clock.clone()));
                }
            }
        }
    }
    assert_wild(&decisions);
}

#[tokio::test]
async fn on_a_tie_of_refusing_windows_the_day_answers() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let a_minute_to_midnight = UnixMillis(1_795_219_140_000);
    let limiter = patient_limiter_by(&[redis.url()], Clock::manual(a_minute_to_midnight).0);
    let (limit_key, quota) = (key(1, "a"), Quota { per_minute: 1, per_day: 1 });
    limiter.take(&limit_key, quota, UnixMillis(0)).await.unwrap();
    let refused = limiter.take(&limit_key, quota, UnixMillis(0)).await.unwrap();
    assert_eq!(refused.outcome, Outcome::QuotaExceeded);
    assert_eq!(refused.minute.resets_at, refused.day.resets_at);
}

/// Returns three keys of two accounts, then the callers that are never banned.
fn callers(trace: u8) -> [LimitKey; 7] {
    let (first, second) = (i64::from(trace) * 2, i64::from(trace) * 2 + 1);
    let address = |host: u8| LimitKey::Address(IpAddr::from([192, 0, trace, host]).into());
    [
        key(first, "a"),
        key(first, "b"),
        key(second, "a"),
        LimitKey::Account(first),
        LimitKey::Usage(first),
        address(1),
        address(2),
    ]
}
