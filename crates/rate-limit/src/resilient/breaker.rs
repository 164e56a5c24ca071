//! Circuit breaker that decides if a shard of the shared counters is asked at all. It is pure: times in,
//! changes out.
//!
//! It opens after three failures in a row. While it is open only probes ask the shared counters, one
//! at a time. After three good ones in a row it closes. Once opened it stays open for a hold of half a
//! second. If it opens again soon after it closed, the hold doubles each time, up to ten seconds, so that a
//! flapping shared limiter does not delay every request.

use std::time::Duration;

/// Minimum time that it stays open the first time.
const SHORTEST_HOLD: Duration = Duration::from_millis(500);

/// Upper bound of that time, regardless of how often it opened before.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// Time after which a closed breaker forgets earlier openings.
const MEMORY: Duration = Duration::from_secs(10);

/// Time since some start that all calls share. It never goes back.
pub(super) type Moment = Duration;

/// Change that a report caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The shared counters are no longer asked.
    Opened,
    /// The shared counters are asked again.
    Closed,
}

/// State of the breaker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaker {
    state: BreakerState,
    /// Minimum time that it is open, this time or the last time.
    hold: Duration,
}

#[derive(Clone, Copy, Debug)]
enum BreakerState {
    /// `since` is the time at which it closed; `None` if it was never open.
    Closed {
        since: Option<Moment>,
        failures: u32,
    },
    Open {
        since: Moment,
        proofs: u32,
    },
}

impl Breaker {
    /// Returns a breaker that is closed if the first probe was good, and open otherwise.
    pub(super) fn new(first_probe_was_good: bool, now: Moment) -> Self {
        let state = if first_probe_was_good {
            BreakerState::Closed { since: None, failures: 0 }
        } else {
            BreakerState::Open { since: now, proofs: 0 }
        };
        Self { state, hold: SHORTEST_HOLD }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed { .. })
    }

    /// Records the result of a request's call to the shared counters. Results of calls that were in flight
    /// when it opened are ignored.
    pub(super) fn asked(&mut self, good: bool, now: Moment) -> Option<Change> {
        match &mut self.state {
            BreakerState::Open { .. } => None,
            BreakerState::Closed { failures, .. } if good => {
                *failures = 0;
                None
            }
            BreakerState::Closed { since, failures } => {
                *failures += 1;
                if *failures < 3 {
                    return None;
                }
                let is_relapse = since.is_some_and(|since| now.saturating_sub(since) < MEMORY);
                self.hold = if is_relapse { LONGEST_HOLD.min(self.hold * 2) } else { SHORTEST_HOLD };
                self.state = BreakerState::Open { since: now, proofs: 0 };
                Some(Change::Opened)
            }
        }
    }

    /// Records the result of a probe.
    pub(super) fn probed(&mut self, good: bool, now: Moment) -> Option<Change> {
        match &mut self.state {
            BreakerState::Closed { .. } => self.asked(good, now),
            BreakerState::Open { proofs, .. } if !good => {
                *proofs = 0;
                None
            }
            BreakerState::Open { since, proofs } => {
                *proofs = proofs.saturating_add(1);
                if *proofs < 3 || now.saturating_sub(*since) < self.hold {
                    return None;
                }
                self.state = BreakerState::Closed { since: Some(now), failures: 0 };
                Some(Change::Closed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Moment {
        Duration::from_millis(millis)
    }

    fn opened(now: Moment) -> Breaker {
        let mut breaker = Breaker::new(true, Duration::ZERO);
        let changes = [(); 3].map(|()| breaker.asked(false, now));
        assert_eq!(changes, [None, None, Some(Change::Opened)]);
        breaker
    }

    #[test]
    fn three_failures_in_a_row_open_the_breaker() {
        let mut breaker = opened(at(0));
        assert!(!breaker.is_closed());
        breaker = Breaker::new(true, at(0));
        for good in [false, false, true, false, false, true] {
            assert_eq!(breaker.asked(good, at(0)), None);
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn probes_count_like_requests_while_the_breaker_is_closed() {
        let mut breaker = Breaker::new(true, at(0));
        assert_eq!(breaker.asked(false, at(0)), None);
        assert_eq!(breaker.probed(false, at(1)), None);
        assert_eq!(breaker.probed(false, at(2)), Some(Change::Opened));
    }

    #[test]
    fn the_breaker_closes_after_three_successful_probes_and_half_a_second() {
        let mut breaker = opened(at(1_000));
        for (good, now) in [(true, 1_100), (true, 1_200), (false, 1_300), (true, 1_400), (true, 1_450)] {
            assert_eq!(breaker.probed(good, at(now)), None);
        }
        assert_eq!(breaker.probed(true, at(1_499)), None, "it is held for half a second");
        assert_eq!(breaker.probed(true, at(1_500)), Some(Change::Closed));
    }

    #[test]
    fn requests_in_flight_when_the_breaker_opened_are_ignored() {
        let mut breaker = opened(at(0));
        for now in 0..100 {
            assert_eq!(breaker.asked(now % 2 == 0, at(now)), None);
        }
        assert_eq!(breaker.probed(true, at(600)), None, "none of them was a probe");
    }

    #[test]
    fn the_breaker_starts_open_if_the_first_probe_failed() {
        let mut breaker = Breaker::new(false, at(0));
        assert!(!breaker.is_closed());
        assert_eq!(
            [500, 501, 502].map(|now| breaker.probed(true, at(now))),
            [None, None, Some(Change::Closed)]
        );
    }

    /// Plays good probes, and requests that always fail between them, which is the worst case of flapping.
    #[test]
    fn a_flapping_server_changes_the_state_less_and_less_often() {
        let mut breaker = Breaker::new(true, at(0));
        let mut changes = Vec::new();
        for step in 0..2_400 {
            let now = STEP * step;
            let asked = [(); 3].map(|()| breaker.asked(false, now));
            changes.extend(asked.into_iter().chain([breaker.probed(true, now)]).flatten().map(|_| now));
        }
        let within_ten_seconds_after =
            |start| changes.iter().filter(|at| (start..start + MEMORY).contains(*at)).count();
        // It is held for 0.5, 1, 2, 4 and 8 seconds.
        assert_eq!(within_ten_seconds_after(at(0)), 9, "{changes:?}");
        for start in (40..110).map(Duration::from_secs) {
            assert!(within_ten_seconds_after(start) <= 2, "{start:?}: {changes:?}");
        }
    }

    #[test]
    fn ten_seconds_without_failures_clear_the_backoff() {
        let mut breaker = opened(at(0));
        for now in [500, 501, 502] {
            breaker.probed(true, at(now));
        }
        for _ in 0..3 {
            breaker.asked(false, at(10_502));
        }
        assert!(!breaker.is_closed());
        for now in [10_600, 10_700, 11_004] {
            breaker.probed(true, at(now));
        }
        assert!(breaker.is_closed(), "held for half a second again");
    }

    proptest! {
        /// Asserts that after any history good probes close it, and failed calls open it.
        #[test]
        fn it_always_finds_its_way(reports in vec((any::<bool>(), any::<bool>()), 0..400)) {
            let mut breaker = Breaker::new(true, at(0));
            let mut now = at(0);
            for (is_probe, good) in reports {
                now += STEP;
                let was_closed = breaker.is_closed();
                let change = if is_probe { breaker.probed(good, now) } else { breaker.asked(good, now) };
                let expected = match (was_closed, breaker.is_closed()) {
                    (true, false) => Some(Change::Opened),
                    (false, true) => Some(Change::Closed),
                    (true, true) | (false, false) => None,
                };
                prop_assert_eq!(change, expected);
                if change == Some(Change::Closed) {
                    prop_assert!(is_probe && good);
                }
            }
            (0..3).for_each(|_| _ = breaker.asked(false, now));
            prop_assert!(!breaker.is_closed());
            (0..3).for_each(|_| _ = breaker.probed(true, now + LONGEST_HOLD));
            prop_assert!(breaker.is_closed());
        }
    }
}
