//! Tests of the windows in docs/contract.md (6.2 and 6.3), where the properties and the conformance suite say
//! nothing: what is shown, and clocks that are set back.

use std::time::Duration;

use petstore_clock::UnixMillis;

use super::{Record, inspect, take};
use crate::{Decision, Outcome, Quota, WindowView};

const FREE: Quota = Quota { per_minute: 60, per_day: 1_000 };

/// Time of the tests: 2026-11-20T18:46:20.250Z.
const NOW: UnixMillis = UnixMillis(1_795_200_380_250);
const MIDNIGHT: UnixMillis = UnixMillis(1_795_219_200_000);

/// Caller, represented by its record.
#[derive(Clone, Copy, Default)]
struct Caller(Record);

impl Caller {
    fn sends(&mut self, quota: Quota, now: UnixMillis) -> Decision {
        let (decision, next) = take(self.0, quota, UnixMillis(0), now);
        self.0 = next;
        decision
    }

    fn sends_many(&mut self, count: u64, quota: Quota, now: UnixMillis) -> Decision {
        for _ in 1..count {
            self.sends(quota, now);
        }
        self.sends(quota, now)
    }
}

fn later(millis: u64) -> UnixMillis {
    NOW.plus(Duration::from_millis(millis))
}

#[test]
fn an_unopened_window_shows_its_full_limit_and_its_possible_end() {
    let decision = inspect(Record::default(), FREE, UnixMillis(0), NOW).decision;
    assert_eq!(decision.minute, WindowView { limit: 60, remaining: 60, resets_at: later(60_000) });
    assert_eq!(decision.day, WindowView { limit: 1_000, remaining: 1_000, resets_at: MIDNIGHT });
}

#[test]
fn if_both_windows_refuse_the_later_reset_answers_and_retry_after_covers_both() {
    let quota = Quota { per_minute: 3, per_day: 3 };
    let mut caller = Caller::default();
    caller.sends_many(3, quota, NOW);
    assert_eq!(caller.sends(quota, NOW).outcome, Outcome::QuotaExceeded);

    let just_before = MIDNIGHT.minus(Duration::from_secs(20));
    let mut caller = Caller::default();
    caller.sends_many(3, quota, just_before);
    let refused = caller.sends(quota, just_before);
    assert_eq!(refused.outcome, Outcome::RateLimited);
    assert_eq!(refused.shown().resets_at, just_before.plus(Duration::from_mins(1)));
    assert_eq!(refused.retry_after_secs(), Some(60));

    let to_the_end = MIDNIGHT.minus(Duration::from_mins(1));
    let mut caller = Caller::default();
    caller.sends_many(3, quota, to_the_end);
    assert_eq!(caller.sends(quota, to_the_end).outcome, Outcome::QuotaExceeded, "a tie is the day's");
}

#[test]
fn an_admitted_request_shows_the_window_with_fewest_remaining_and_on_a_tie_the_day() {
    let mut caller = Caller::default();
    let shown = |quota, caller: &mut Caller| caller.sends(quota, NOW).shown().limit;
    assert_eq!(shown(Quota { per_minute: 10, per_day: 11 }, &mut caller), 10);
    assert_eq!(shown(Quota { per_minute: 11, per_day: 10 }, &mut caller), 10);
    let tie = caller.sends(Quota { per_minute: 10, per_day: 10 }, NOW);
    assert_eq!(tie.shown(), tie.day);
}

#[test]
fn a_clock_set_back_by_up_to_a_window_never_admits_requests_twice() {
    let (quota, opened) = (Quota { per_minute: 60, per_day: 60 }, MIDNIGHT.plus(Duration::from_mins(1)));
    let mut caller = Caller::default();
    caller.sends_many(60, quota, opened);
    for (back, outcome) in [
        (1, Outcome::QuotaExceeded),
        (60, Outcome::QuotaExceeded), // the minute begins a minute from now
        (60 + 86_400, Outcome::QuotaExceeded), // the day begins a day from now
    ] {
        let now = opened.minus(Duration::from_secs(back));
        assert_eq!(inspect(caller.0, quota, UnixMillis(0), now).decision.outcome, outcome, "{back} s back");
    }
    let minute_before =
        inspect(caller.0, quota, UnixMillis(0), opened.minus(Duration::from_mins(1))).decision.minute;
    assert_eq!((minute_before.remaining, minute_before.resets_at), (0, opened.plus(Duration::from_mins(1))));
}

#[test]
fn a_clock_set_back_by_more_than_a_window_opens_a_new_one() {
    let mut caller = Caller::default();
    caller.sends_many(60, FREE, NOW);
    let before = NOW.minus(Duration::from_millis(60_001));
    let decision = caller.sends(FREE, before);
    assert_eq!((decision.outcome, decision.minute.remaining), (Outcome::Admitted, 59));
    assert_eq!(decision.minute.resets_at, before.plus(Duration::from_mins(1)));
    assert_eq!(decision.day.remaining, 939, "it is still the same day");

    let two_days_before = NOW.minus(Duration::from_hours(48));
    assert_eq!(caller.sends(FREE, two_days_before).day.remaining, 999);
}
