//! Tests of the refused periods and strikes in docs/contract.md (6.8), one for each sentence.

use std::time::Duration;

use petstore_clock::UnixMillis;

use super::{Record, take};
use crate::{Decision, Outcome, Quota};

const FREE: Quota = Quota { per_minute: 60, per_day: 1_000 };
const START: UnixMillis = UnixMillis(1_795_200_000_000);
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Key of a separate account, and the time since it was first used.
struct Key {
    record: Record,
    quota: Quota,
    settled_at: UnixMillis,
    millis: u64,
}

impl Key {
    fn new(quota: Quota) -> Self {
        Self { record: Record::default(), quota, settled_at: UnixMillis(0), millis: 0 }
    }

    /// Creates a key with the day's only request used up: all its requests before midnight are refused.
    fn refused() -> Self {
        let mut key = Self::new(Quota { per_minute: 60, per_day: 1 });
        assert_eq!(key.sends().outcome, Outcome::Admitted);
        assert_eq!(key.sends().outcome, Outcome::QuotaExceeded);
        key
    }

    fn waits(&mut self, millis: u64) -> &mut Self {
        self.millis += millis;
        self
    }

    fn sends(&mut self) -> Decision {
        let (decision, next) = take(self.record, self.quota, self.settled_at, self.now());
        self.record = next;
        decision
    }

    fn sends_many(&mut self, count: u64) -> Decision {
        for _ in 1..count {
            self.sends();
        }
        self.sends()
    }

    fn now(&self) -> UnixMillis {
        START.plus(Duration::from_millis(self.millis))
    }

    fn strikes(&self) -> u64 {
        self.record.abuse.at(self.now().0, self.settled_at).strikes
    }

    /// Ignores 429 until its strikes are too many, and returns the time of that.
    fn strikes_out(&mut self) -> UnixMillis {
        self.sends(); // at the latest this opens a refused period
        self.waits(1_000);
        let decision = self.sends_many(121);
        assert_eq!(decision.struck_out_at, Some(self.now()));
        self.now()
    }
}

#[test]
fn a_request_within_a_second_of_the_first_429_is_no_strike_and_one_after_it_is() {
    let mut key = Key::refused();
    key.waits(999).sends_many(10_000);
    assert_eq!(key.strikes(), 0);
    key.waits(1).sends();
    assert_eq!(key.strikes(), 1);
}

#[test]
fn a_refused_period_ends_when_the_first_429s_retry_after_has_passed() {
    let mut key = Key::new(Quota { per_minute: 1, per_day: 1_000 });
    key.sends();
    key.waits(30_000).sends();
    key.waits(1_000).sends();
    assert_eq!(key.strikes(), 1);
    key.waits(29_000).sends(); // 60 s: a new minute
    key.sends(); // the first 429 of a new refused period
    key.waits(999).sends();
    assert_eq!(key.strikes(), 1);
}

#[test]
fn an_admitted_request_ends_the_refused_period_as_after_a_raised_plan() {
    let mut key = Key::refused();
    key.quota = Quota { per_minute: 1_000, per_day: 10_000 };
    assert_eq!(key.waits(5_000).sends().outcome, Outcome::Admitted);
    key.sends_many(999);
    key.sends_many(1_000); // of one volley: the first 429 and the requests in flight with it
    assert_eq!(key.strikes(), 0);
}

#[test]
fn requests_in_flight_may_use_up_the_next_minute_without_a_strike() {
    let mut key = Key::new(Quota { per_minute: 1, per_day: 1_000 });
    key.sends();
    key.waits(59_900).sends(); // the first 429, with Retry-After: 1
    assert_eq!(key.waits(400).sends().outcome, Outcome::Admitted);
    key.waits(500).sends_many(10_000);
    assert_eq!(key.waits(100).sends().outcome, Outcome::RateLimited); // tried again as Retry-After said
    key.waits(999).sends_many(10); // the requests in flight with that
    assert_eq!(key.strikes(), 0);
}

#[test]
fn more_than_100_strikes_are_too_many_for_a_key_of_a_small_plan() {
    let mut key = Key::new(Quota { per_minute: 50, per_day: 1 });
    key.sends_many(2);
    let last = key.waits(1_000).sends_many(100);
    assert_eq!((last.is_strike, last.struck_out_at), (true, None));
    assert_eq!(key.sends().struck_out_at, Some(key.now()));
}

#[test]
fn more_than_twice_the_minutes_limit_of_strikes_are_too_many_for_a_key_of_a_larger_plan() {
    let mut key = Key::refused();
    assert_eq!(key.waits(1_000).sends_many(120).struck_out_at, None);
    assert_eq!(key.sends().struck_out_at, Some(key.now()));
}

#[test]
fn strikes_are_counted_in_a_fixed_ten_minutes_opened_by_the_first() {
    let mut key = Key::refused();
    key.waits(1_000).sends();
    key.waits(10 * MINUTE - 1).sends_many(119);
    assert_eq!(key.strikes(), 120);
    key.waits(1);
    assert_eq!(key.strikes(), 0);
    assert_eq!(key.sends_many(120).struck_out_at, None);
}

#[test]
fn for_ten_minutes_further_strikes_show_when_the_threshold_was_passed() {
    let mut key = Key::refused();
    let struck_out_at = key.strikes_out();
    for per_minute in [60, 1_000, 1] {
        key.quota.per_minute = per_minute;
        assert_eq!(key.waits(3 * MINUTE).sends().struck_out_at, Some(struck_out_at));
    }
    let last = key.waits(MINUTE).sends();
    assert_eq!((last.is_strike, last.struck_out_at, key.strikes()), (true, None, 1));
}

#[test]
fn a_lowered_plan_does_not_move_the_time_of_the_threshold_back() {
    let mut key = Key::new(Quota { per_minute: 1_000, per_day: 1 });
    key.sends_many(2);
    assert_eq!(key.waits(1_000).sends_many(500).struck_out_at, None);
    key.quota.per_minute = 60;
    assert_eq!(key.waits(5_000).sends().struck_out_at, Some(key.now()));
}

#[test]
fn after_a_settlement_strikes_count_from_zero() {
    let mut key = Key::refused();
    key.settled_at = key.strikes_out().plus(Duration::from_millis(1));
    key.waits(1);
    let last = key.sends_many(10_000);
    assert_eq!((last.outcome, last.is_strike, key.strikes()), (Outcome::QuotaExceeded, false, 0));
    assert_eq!(key.waits(1_000).sends_many(120).struck_out_at, None);
    assert_eq!(key.sends().struck_out_at, Some(key.now()));
}

#[test]
fn a_clock_set_back_ends_refused_periods_from_the_future() {
    let mut key = Key::new(FREE);
    key.waits(2 * HOUR).sends_many(60);
    key.strikes_out();
    key.millis = 0;
    assert_eq!(key.sends().outcome, Outcome::Admitted);
    assert_eq!(key.record.abuse, super::AbuseState::default());
}

#[test]
fn a_clock_set_back_by_up_to_a_minute_ends_no_refused_period() {
    let mut key = Key::refused();
    key.waits(5 * MINUTE);
    let struck_out_at = key.strikes_out();
    key.millis -= MINUTE;
    assert_eq!(key.record.abuse.at(key.now().0, key.settled_at).struck_out_at(), Some(struck_out_at));
    key.millis -= 1;
    assert_eq!(key.record.abuse.at(key.now().0, key.settled_at).struck_out_at(), None);
}

#[test]
fn clients_that_ignore_429_have_too_many_strikes_at_one_and_at_a_hundred_requests_a_second() {
    for (every, within) in [(1_000, 1_200_000), (10, 10_000)] {
        let mut key = Key::new(FREE);
        let is_struck_out = (0..within / every).any(|_| key.waits(every).sends().struck_out_at.is_some());
        assert!(is_struck_out, "one request every {every} ms for {within} ms");
    }
}

/// Plays a hundred thousand clients, each with a separate key and plan. Each sends until its first 429. Up to
/// 1,000 requests in flight all arrive within a second of it, and then it is silent until its `Retry-After`
/// has passed. Most have fewer in flight, unless `PETSTORE_TEST_LONG=1` (`scripts/test --long`).
#[test]
fn a_hundred_thousand_clients_that_stop_at_their_first_429_get_no_strike() {
    let mut random = Numbers(1);
    let is_long = std::env::var_os("PETSTORE_TEST_LONG").is_some();
    for client in 0..100_000_u64 {
        let mut key = Key::new(Quota { per_minute: 1 + random.below(5), per_day: 1 + random.below(10) });
        let most_in_flight = if is_long || client % 100 == 0 { 1_000 } else { 20 };
        for _ in 0..2 {
            let wait = loop {
                if let Some(wait) = key.waits(random.below(20_000)).sends().retry_after_secs() {
                    break wait;
                }
            };
            let (first_429, in_flight) = (key.millis, random.below(most_in_flight + 1));
            for arrived in 0..in_flight {
                key.millis = first_429 + 999 * (arrived + 1) / in_flight; // in order, the last after 999 ms
                key.sends();
            }
            assert_eq!(key.strikes(), 0, "client {client}");
            key.millis = first_429 + wait * 1_000;
        }
    }
}

/// Pseudo-random numbers that are always the same (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % bound
    }
}
