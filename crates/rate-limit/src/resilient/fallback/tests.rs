use std::time::Duration;

use petstore_clock::ManualClock;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::Outcome;

const START: UnixMillis = UnixMillis(1_795_200_000_000);
/// Time of a settlement that never happened.
const NEVER: UnixMillis = UnixMillis(0);
const FREE: Quota = Quota { per_minute: 60, per_day: 1_000 };

fn key(name: &str) -> LimitKey {
    LimitKey::ApiKey { account_id: 1, key_id: name.into() }
}

/// Gateways that share counters, as long as these are there.
struct Gateways {
    clock: Clock,
    hand: ManualClock,
    shared: Record,
    nodes: Vec<Fallback>,
}

impl Gateways {
    fn new(count: u16) -> Self {
        let (clock, hand) = Clock::manual(START);
        let node = |_| Fallback::new(clock.clone(), NonZeroU16::new(count).unwrap());
        Self { nodes: (0..count).map(node).collect(), clock, hand, shared: Record::default() }
    }

    /// Sends a request that the shared counters decide.
    fn shared(&mut self, node: usize, quota: Quota) -> Decision {
        let (decision, next) = policy::take(self.shared, quota, NEVER, self.clock.now());
        self.shared = next;
        self.nodes[node].learn(&key("a"), &decision, self.clock.now());
        decision
    }

    fn shared_many(&mut self, count: usize, quota: Quota) {
        for number in 0..count {
            self.shared(number % self.nodes.len(), quota);
        }
    }

    /// Returns the number of requests that each gateway admits on its own if it is asked without end.
    fn alone(&self, quota: Quota) -> Vec<u64> {
        let admitted = |node: &Fallback| {
            (0..100_000)
                .take_while(|_| {
                    node.decide(true, &key("a"), quota, NEVER).decision.outcome == Outcome::Admitted
                })
                .count() as u64
        };
        self.nodes.iter().map(admitted).collect()
    }
}

#[test]
fn one_gateway_continues_the_shared_counts() {
    let mut gateways = Gateways::new(1);
    gateways.shared_many(10, FREE);
    gateways.hand.advance(Duration::from_secs(5));
    let decision = gateways.nodes[0].decide(true, &key("a"), FREE, NEVER).decision;
    assert_eq!((decision.minute.limit, decision.minute.remaining), (60, 49));
    assert_eq!(decision.minute.resets_at, UnixMillis(START.0 + 60_000));
    assert_eq!(decision.day.remaining, 989);
    assert_eq!(gateways.alone(FREE), [49]);
}

#[test]
fn several_gateways_share_the_remaining_requests() {
    let mut gateways = Gateways::new(2);
    gateways.shared_many(10, FREE);
    let shown = gateways.nodes[0].decide(false, &key("a"), FREE, NEVER).decision.minute;
    assert_eq!((shown.limit, shown.remaining), (30, 25));
    assert_eq!(gateways.alone(FREE), [25, 25]);
}

#[test]
fn a_caller_over_its_limit_stays_refused_until_the_window_ends() {
    for count in [1, 2, 7, 60, 100] {
        let mut gateways = Gateways::new(count);
        gateways.shared_many(61.max(usize::from(count)), FREE);
        assert!(gateways.alone(FREE).iter().all(|admitted| *admitted == 0), "{count} gateways");
        gateways.hand.advance(Duration::from_mins(1));
        let share = (60 / u64::from(count)).max(1);
        assert!(gateways.alone(FREE).iter().all(|admitted| *admitted == share), "{count} gateways");
    }
}

#[test]
fn time_is_taken_from_the_shared_counters() {
    let (clock, _hand) = Clock::manual(START);
    let node = Fallback::new(clock, NonZeroU16::MIN);
    for hours_ahead in [1, -1] {
        let now = UnixMillis(START.0.saturating_add_signed(hours_ahead * 3_600_000));
        node.learn(&key("a"), &policy::take(Record::default(), FREE, NEVER, now).0, START);
        assert_eq!(node.decide(true, &key("a"), FREE, NEVER).decision.now, now);
    }
}

#[test]
fn a_shared_clock_that_was_set_back_is_followed() {
    let (clock, _hand) = Clock::manual(START);
    let node = Fallback::new(clock, NonZeroU16::MIN);
    for now in [START.0 + 3_600_000, START.0] {
        let (first, record) = policy::take(Record::default(), FREE, NEVER, UnixMillis(now));
        let (second, _) = policy::take(record, FREE, NEVER, UnixMillis(now));
        node.learn(&key("a"), &first, START);
        node.learn(&key("a"), &second, START);
        assert_eq!(node.decide(false, &key("a"), FREE, NEVER).decision.minute.remaining, 58);
    }
}

#[test]
fn a_clock_that_was_set_during_a_question_does_not_change_the_time_of_the_shared_counters() {
    let (clock, hand) = Clock::manual(START);
    let node = Fallback::new(clock.clone(), NonZeroU16::MIN);
    let asked_at = node.local_time();
    hand.advance(Duration::from_secs(20));
    node.learn_time(clock.now(), asked_at);
    assert_eq!(node.now(), clock.now());
}

#[test]
fn an_overtaken_answer_does_not_lower_the_count() {
    let (clock, _hand) = Clock::manual(START);
    let node = Fallback::new(clock, NonZeroU16::MIN);
    let (first, record) = policy::take(Record::default(), FREE, NEVER, START);
    let (second, _) = policy::take(record, FREE, NEVER, START);
    node.learn(&key("a"), &second, START);
    node.learn(&key("a"), &first, START);
    assert_eq!(node.decide(false, &key("a"), FREE, NEVER).decision.minute.remaining, 58);
}

#[test]
fn strikes_are_counted_locally_too() {
    let gateways = Gateways::new(1);
    let node = &gateways.nodes[0];
    gateways.alone(FREE);
    gateways.hand.advance(Duration::from_secs(1));
    let take = || node.decide(true, &key("a"), FREE, NEVER).decision;
    (0..120).for_each(|_| assert_eq!(take().struck_out_at, None));
    let last = take();
    assert_eq!(last.struck_out_at, Some(last.now));
    let settled = node.decide(true, &key("a"), FREE, last.now.plus(Duration::from_millis(1))).decision;
    assert_eq!((settled.is_strike, settled.struck_out_at), (false, None));
}

#[test]
fn a_remembered_refusal_ends_no_later_than_the_refusal() {
    let (clock, hand) = Clock::manual(START);
    let node = Fallback::new(clock, NonZeroU16::MIN);
    let address = LimitKey::Address(std::net::IpAddr::from([192, 0, 2, 1]).into());
    let quota = Quota { per_minute: 1, per_day: 10 };
    for skew in [-3_600_000, 0, 3_600_000] {
        // The shared clock differs, and the answer takes 50 ms each way.
        let shared = |local: UnixMillis| UnixMillis(local.0.saturating_add_signed(skew));
        let begin = node.local_time();
        let opened = shared(UnixMillis(begin.0 + 50));
        let (_, record) = policy::take(Record::default(), quota, NEVER, opened);
        let refused_at = UnixMillis(opened.0 + 100);
        let (refusal, _) = policy::take(record, quota, NEVER, refused_at);
        hand.advance(Duration::from_millis(200));
        node.learn(&address, &refusal, UnixMillis(begin.0 + 100));
        let outcome = || node.as_seen(&address, quota).decision.outcome;
        assert_eq!(outcome(), Outcome::RateLimited);
        hand.set(UnixMillis(begin.0 + 59_000));
        assert_eq!(outcome(), Outcome::RateLimited);
        assert!(node.as_seen(&address, quota).decision.retry_after_secs() <= Some(2));
        hand.set(UnixMillis(begin.0 + 60_050)); // when the shared window ends
        assert_eq!(outcome(), Outcome::Admitted, "by {skew} ms");
        hand.advance(Duration::from_mins(5));
    }
}

proptest! {
    /// Asserts the documented bound, regardless of how often the shared counters come and go.
    #[test]
    fn never_more_than_the_limit_and_the_shares_are_admitted_in_a_day(
        count in 1..5u16,
        per_day in 1..60u64,
        requests in vec((0..5usize, any::<bool>(), 0..100u64), 1..600),
    ) {
        let quota = Quota { per_minute: 1_000, per_day };
        let share = share(quota, NonZeroU16::new(count).unwrap()).per_day;
        let mut gateways = Gateways::new(count);
        let (mut shared, mut own) = (0, vec![0; usize::from(count)]);
        for (node, alone, pause) in requests {
            let node = node % own.len();
            gateways.hand.advance(Duration::from_millis(pause));
            let decision = if alone {
                gateways.nodes[node].decide(true, &key("a"), quota, NEVER).decision
            } else {
                gateways.shared(node, quota)
            };
            let counter = if alone { &mut own[node] } else { &mut shared };
            *counter += u64::from(decision.outcome == Outcome::Admitted);
        }
        prop_assert!(shared <= per_day);
        prop_assert!(own.iter().all(|admitted| *admitted <= share));
    }

    /// Asserts that not even the bound is used if all gateways saw the last shared count.
    #[test]
    fn gateways_that_saw_the_last_count_admit_no_more_than_remained(
        count in 1..6u16,
        per_minute in 6..100u64,
        used in 0..120usize,
    ) {
        let quota = Quota { per_minute, per_day: 10_000 };
        let mut gateways = Gateways::new(count);
        gateways.shared_many(used, quota);
        let last = policy::inspect(gateways.shared, quota, NEVER, START).decision;
        gateways.nodes.iter().for_each(|node| node.learn(&key("a"), &last, START));
        let own: u64 = gateways.alone(quota).iter().sum();
        prop_assert!(own <= last.minute.remaining, "{own} of {}", last.minute.remaining);
        let left = last.minute.remaining;
        prop_assert!(own + 2 * u64::from(count) > left, "{own} of {left}");
    }
}
