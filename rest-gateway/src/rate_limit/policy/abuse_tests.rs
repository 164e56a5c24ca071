//! What docs/contract.md says of refused periods, strikes and bans (6.8), each sentence as a test.

use std::time::Duration;

use petstore_clock::UnixMillis;
use proptest::prelude::*;

use super::{Record, inspect, take};
use crate::rate_limit::{Decision, Outcome, Quota};

const FREE: Quota = Quota { per_minute: 60, per_day: 1_000 };
const START: UnixMillis = UnixMillis(1_795_200_000_000);
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A key of an account of its own, and the time since it was first used.
struct Key {
    record: Record,
    quota: Quota,
    millis: u64,
}

impl Key {
    fn new(quota: Quota) -> Self {
        Self { record: Record::default(), quota, millis: 0 }
    }

    /// One with the day's only request used up: until midnight, all it sends is refused.
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
        let (decision, next) = take(self.record, self.quota, self.now());
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
        self.record.abuse.at(self.now().0).strikes
    }

    fn banned(&self) -> bool {
        inspect(self.record, self.quota, self.now()).decision.outcome == Outcome::Banned
    }

    /// Ignores 429 until it is banned; answers with the ban's length in milliseconds.
    fn provokes_a_ban(&mut self) -> u64 {
        self.sends(); // at the latest this opens a refused period
        self.waits(1_000);
        let decision = self.sends_many(121);
        assert_eq!(decision.outcome, Outcome::Banned);
        decision.banned_until().unwrap().0 - decision.now.0
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
    key.sends_many(1_000); // of one volley: the first 429 and what was in flight with it
    assert_eq!(key.strikes(), 0);
}

#[test]
fn what_was_in_flight_may_use_up_the_next_minute_without_a_strike() {
    let mut key = Key::new(Quota { per_minute: 1, per_day: 1_000 });
    key.sends();
    key.waits(59_900).sends(); // the first 429, with Retry-After: 1
    assert_eq!(key.waits(400).sends().outcome, Outcome::Admitted);
    key.waits(500).sends_many(10_000);
    assert_eq!(key.waits(100).sends().outcome, Outcome::RateLimited); // tried again as Retry-After said
    key.waits(999).sends_many(10); // what was in flight with that
    assert_eq!(key.strikes(), 0);
}

#[test]
fn more_than_100_strikes_ban_a_key_of_a_small_plan_for_five_minutes() {
    let mut key = Key::new(Quota { per_minute: 50, per_day: 1 });
    key.sends_many(2);
    assert_eq!(key.waits(1_000).sends_many(100).outcome, Outcome::QuotaExceeded);
    let banned = key.sends();
    assert_eq!(banned.outcome, Outcome::Banned);
    assert_eq!(banned.banned_until(), Some(key.now().plus(Duration::from_mins(5))));
}

#[test]
fn more_than_twice_the_minutes_limit_of_strikes_ban_a_key_of_a_larger_plan() {
    let mut key = Key::refused();
    assert_eq!(key.waits(1_000).sends_many(120).outcome, Outcome::QuotaExceeded);
    assert_eq!(key.sends().outcome, Outcome::Banned);
}

#[test]
fn strikes_are_counted_in_a_fixed_ten_minutes_opened_by_the_first() {
    let mut key = Key::refused();
    key.waits(1_000).sends();
    key.waits(10 * MINUTE - 1).sends_many(119);
    assert_eq!(key.strikes(), 120);
    key.waits(1);
    assert_eq!(key.strikes(), 0);
    assert_eq!(key.sends_many(120).outcome, Outcome::QuotaExceeded);
}

#[test]
fn in_a_ban_the_minutes_limit_nothing_remaining_and_the_bans_end_are_shown() {
    let mut key = Key::new(FREE);
    key.sends_many(60);
    key.provokes_a_ban();
    let banned = key.waits(100).sends();
    let shown = banned.shown();
    assert_eq!((shown.limit, shown.remaining, Some(shown.resets_at)), (60, 0, banned.banned_until()));
    assert_eq!(banned.retry_after_secs(), Some(300), "299.9 s, rounded up");
    assert_eq!(inspect(key.record, FREE, key.now()).decision, banned);
}

#[test]
fn in_a_ban_retry_after_covers_an_exhausted_day_as_well() {
    let mut key = Key::refused();
    key.provokes_a_ban();
    let banned = key.sends();
    assert_eq!(banned.retry_after_secs(), Some((banned.day.resets_at.0 - banned.now.0).div_ceil(1_000)));
}

#[test]
fn requests_in_a_ban_count_in_nothing_and_do_not_extend_it() {
    let mut key = Key::new(FREE);
    key.sends_many(60);
    let until = key.now().0 + 1_000 + key.provokes_a_ban();
    let record = key.record;
    let last = key.waits(5 * MINUTE - 1).sends_many(10_000);
    assert_eq!(last.banned_until(), Some(UnixMillis(until)));
    assert_eq!((key.record.abuse, key.record.windows.day), (record.abuse, record.windows.day));
    assert_eq!(key.waits(1).sends().outcome, Outcome::Admitted);
}

#[test]
fn after_a_ban_strikes_count_from_zero_and_a_second_of_grace_is_given_again() {
    let mut key = Key::refused();
    key.provokes_a_ban();
    key.waits(5 * MINUTE);
    assert_eq!(key.sends_many(10_000).outcome, Outcome::QuotaExceeded);
    assert_eq!(key.strikes(), 0);
}

#[test]
fn each_further_ban_is_twice_as_long_up_to_a_day() {
    let mut key = Key::refused();
    let minutes = [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_440, 1_440];
    for expected in minutes {
        while key.sends().outcome == Outcome::Admitted {} // a new day lets one in
        assert_eq!(key.provokes_a_ban(), expected * MINUTE);
        key.waits(expected * MINUTE);
    }
}

#[test]
fn bans_are_forgotten_a_day_after_the_last_one_ended() {
    let mut key = Key::refused();
    assert_eq!(key.provokes_a_ban(), 5 * MINUTE);
    key.waits(5 * MINUTE + DAY - 1_001).sends_many(2);
    assert_eq!(key.provokes_a_ban(), 10 * MINUTE); // a second later
    key.waits(10 * MINUTE + DAY - 1_000).sends_many(2);
    assert_eq!(key.provokes_a_ban(), 5 * MINUTE);
}

#[test]
fn a_clock_set_back_lifts_bans_and_refused_periods_from_the_future() {
    let mut key = Key::new(FREE);
    key.waits(2 * HOUR).sends_many(60);
    key.provokes_a_ban();
    key.millis = 0;
    assert_eq!(key.sends().outcome, Outcome::Admitted);
    assert_eq!(key.record.abuse, super::AbuseState::default());
}

#[test]
fn a_clock_set_back_by_up_to_a_minute_lifts_no_ban_and_no_refused_period() {
    let mut key = Key::refused();
    key.waits(5 * MINUTE);
    key.provokes_a_ban();
    key.millis -= MINUTE;
    assert_eq!(key.sends().outcome, Outcome::Banned);
    key.millis -= 1;
    assert_eq!(key.sends().outcome, Outcome::QuotaExceeded);
}

#[test]
fn clients_that_ignore_429_are_banned_at_one_and_at_a_hundred_requests_a_second() {
    for (every, within) in [(1_000, 1_200_000), (10, 10_000)] {
        let mut key = Key::new(FREE);
        let banned = (0..within / every).any(|_| key.waits(every).sends().outcome == Outcome::Banned);
        assert!(banned, "one request every {every} ms for {within} ms");
    }
}

/// A hundred thousand clients, each with its own key and plan. Each sends until its first 429, of up to 1,000
/// requests in flight all arrive within a second of it, and then it is silent until its `Retry-After` has
/// passed. Most have fewer in flight, unless `PETSTORE_TEST_LONG=1` (`scripts/test --long`).
#[test]
fn of_a_hundred_thousand_clients_that_stop_at_their_first_429_none_is_ever_struck() {
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
            assert_eq!((key.strikes(), key.banned()), (0, false), "client {client}");
            key.millis = first_429 + wait * 1_000;
        }
    }
}

/// Numbers that look random and are always the same (splitmix64).
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

proptest! {
    /// Senders that share one key send at their own pace, stop on the first 429 that any of them gets, and
    /// what they had in flight arrives within a second of it.
    #[test]
    fn a_client_that_stops_at_its_first_429_is_never_struck(
        pauses in prop::collection::vec(0..20_000u64, 1..200),
        in_flight in prop::collection::vec(0..100u64, 0..10),
        per_minute in 1..20u64,
        per_day in 1..100u64,
    ) {
        let mut key = Key::new(Quota { per_minute, per_day });
        for pause in pauses {
            let decision = key.waits(pause).sends();
            if let Some(wait) = decision.retry_after_secs() {
                let first_429 = key.millis;
                for late in &in_flight {
                    key.waits(*late).sends(); // less than a second in all
                }
                prop_assert_eq!(key.strikes(), 0);
                key.millis = first_429 + wait * 1_000;
            }
        }
        prop_assert_eq!(key.strikes(), 0);
    }
}
