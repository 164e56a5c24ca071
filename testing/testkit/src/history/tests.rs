//! Tests of the checker against limiters that are right and limiters that are wrong: each error is found.

use proptest::prelude::*;

use super::{Violation, Window, check};
use crate::load::{NoAnswer, Record};

const LIMIT: u64 = 10;

/// One request of a simulated history: its start, and the time until it is checked, counted and answered.
#[derive(Clone, Copy, Debug)]
struct Request {
    sent: u64,
    looks: u64,
    writes: u64,
    answers: u64,
}

/// Algorithm of a simulated limiter.
#[derive(Clone, Copy)]
enum Limiter {
    /// Checks and counts in one step.
    Atomic { limit: u64 },
    /// Checks, and counts later: the classic mistake.
    CheckThenIncrement,
    /// Each of two gateways has its own counter, and calls it shared.
    PerGateway,
}

/// Runs the requests through the limiter, in the order of time.
fn play(limiter: Limiter, requests: &[Request]) -> Vec<Record> {
    let mut steps: Vec<_> = (0..requests.len()).flat_map(|place| [(place, false), (place, true)]).collect();
    let at = |(place, writes): &(usize, bool)| {
        let request = requests[*place];
        (request.sent + request.looks + if *writes { request.writes } else { 0 }, *writes)
    };
    steps.sort_by_key(at);
    let mut used = [0_u64; 2];
    let mut found = vec![0; requests.len()];
    for (place, writes) in steps {
        let counter = if matches!(limiter, Limiter::PerGateway) { place % 2 } else { 0 };
        match limiter {
            Limiter::CheckThenIncrement if writes => used[counter] += u64::from(found[place] < LIMIT),
            Limiter::CheckThenIncrement => found[place] = used[counter],
            Limiter::Atomic { .. } | Limiter::PerGateway if writes => {}
            Limiter::Atomic { limit } => found[place] = take(&mut used[counter], limit),
            Limiter::PerGateway => found[place] = take(&mut used[counter], LIMIT),
        }
    }
    let records = requests.iter().zip(found).enumerate();
    records.map(|(place, (request, used))| record(place, *request, used)).collect()
}

/// Returns the previous count, and counts one more unless the limit is reached. The limit shown is [`LIMIT`]
/// in any case.
fn take(used: &mut u64, limit: u64) -> u64 {
    let before = *used;
    if before >= limit {
        return LIMIT;
    }
    *used += 1;
    before
}

fn record(place: usize, request: Request, used: u64) -> Record {
    let is_admitted = used < LIMIT;
    Record {
        inv_ns: request.sent,
        ret_ns: request.sent + request.looks + request.writes + request.answers,
        gateway: place % 2,
        key: 0,
        account: 7,
        status: Ok(if is_admitted { 200 } else { 429 }),
        rl_limit: Some(LIMIT),
        rl_remaining: Some(LIMIT.saturating_sub(used + 1)),
        rl_reset: Some(60),
        retry_after: (!is_admitted).then_some(60),
        scope: None,
        code: (!is_admitted).then(|| "RATE_LIMITED".to_owned()),
    }
}

/// Returns three times as many requests as the limit, four at a time.
fn busy() -> Vec<Request> {
    (0..3 * LIMIT).map(|place| Request { sent: place * 10, looks: 5, writes: 20, answers: 15 }).collect()
}

/// Returns requests one after another.
fn calm() -> Vec<Request> {
    (0..3 * LIMIT).map(|place| Request { sent: place * 100, looks: 5, writes: 20, answers: 15 }).collect()
}

#[test]
fn an_exact_limiter_is_clean() {
    let report = check(&play(Limiter::Atomic { limit: LIMIT }, &busy()));
    report.assert_clean();
    assert_eq!(report.admitted(), LIMIT);
    assert_eq!(report.windows.len(), 1);
}

proptest! {
    #[test]
    fn an_exact_limiter_is_never_accused(
        times in prop::collection::vec((0..500_u64, 1..50_u64, 0..50_u64, 1..50_u64), 0..40),
    ) {
        let requests: Vec<_> = times
            .into_iter()
            .map(|(sent, looks, writes, answers)| Request { sent, looks, writes, answers })
            .collect();
        let report = check(&play(Limiter::Atomic { limit: LIMIT }, &requests));
        prop_assert!(report.violations.is_empty(), "{}", report);
    }
}

#[test]
fn a_limiter_that_checks_and_then_increments_is_found() {
    let records = play(Limiter::CheckThenIncrement, &busy());
    let violations = check(&records).violations;
    assert!(
        violations.iter().any(|violation| matches!(violation, Violation::OverAdmitted(..))),
        "{violations:?}"
    );
    assert!(violations.iter().any(|violation| matches!(violation, Violation::RemainingRepeated(..))));
    // It is only wrong under concurrency: alone, it counts correctly.
    check(&play(Limiter::CheckThenIncrement, &calm())).assert_clean();
}

#[test]
fn gateways_that_count_locally_and_say_shared_are_found() {
    let violations = check(&play(Limiter::PerGateway, &calm())).violations;
    let count = |is: fn(&Violation) -> bool| violations.iter().filter(|violation| is(violation)).count();
    assert_eq!(count(|violation| matches!(violation, Violation::OverAdmitted(..))), 1);
    assert_eq!(count(|violation| matches!(violation, Violation::RemainingRepeated(..))), 10);
    assert_eq!(count(|violation| matches!(violation, Violation::RemainingRose(..))), 10);
}

#[test]
fn gateways_that_count_locally_and_say_node_are_clean() {
    let mut records = play(Limiter::PerGateway, &calm());
    for record in &mut records {
        record.scope = Some("node".to_owned());
    }
    let report = check(&records);
    report.assert_clean();
    assert_eq!(report.windows.keys().map(|window| window.node).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[test]
fn a_limiter_that_refuses_one_too_early_is_found() {
    let violations = check(&play(Limiter::Atomic { limit: LIMIT - 1 }, &busy())).violations;
    assert!(matches!(violations[..], [Violation::UnderAdmitted(..)]), "{violations:?}");
}

#[test]
fn a_request_without_an_answer_may_have_counted() {
    for unknown in [Err(NoAnswer::Broken), Err(NoAnswer::TimedOut), Ok(503)] {
        let mut records = play(Limiter::Atomic { limit: LIMIT }, &busy());
        records[3].status = unknown;
        check(&records).assert_clean();
    }
    let mut records = play(Limiter::Atomic { limit: LIMIT }, &busy());
    records[3].status = Err(NoAnswer::NotSent);
    assert_eq!(check(&records).violations.len(), 1, "one that was never sent cannot have counted");
}

#[test]
fn admitting_after_a_refusal_is_found() {
    let mut records = play(Limiter::Atomic { limit: LIMIT }, &calm());
    records.swap(2, 20); // the order of the list has no meaning
    check(&records).assert_clean();
    let refused = records.iter().position(|record| record.inv_ns == 2_000).unwrap();
    let admitted = records.iter().position(|record| record.inv_ns == 900).unwrap();
    (records[refused].inv_ns, records[admitted].inv_ns) = (900, 2_000);
    (records[refused].ret_ns, records[admitted].ret_ns) = (940, 2_040);
    let window = Window { account: 7, reset: 60, limit: LIMIT, node: None };
    assert_eq!(check(&records).violations, [Violation::AdmittedAfterRefusal(window)]);
}

#[test]
fn a_ban_does_not_say_that_a_window_is_used_up() {
    let mut records = play(Limiter::Atomic { limit: LIMIT }, &calm());
    records.retain(|record| record.status == Ok(429) || record.inv_ns < 300);
    assert_eq!(check(&records).violations.len(), 1);
    for record in records.iter_mut().filter(|record| record.status == Ok(429)) {
        record.code = Some("API_KEY_BANNED".to_owned());
        record.rl_reset = Some(600);
    }
    check(&records).assert_clean();
}

#[test]
fn an_answer_without_its_headers_is_found() {
    let mut records = play(Limiter::Atomic { limit: LIMIT }, &busy());
    let admitted = records.iter().position(|record| record.status == Ok(200)).unwrap();
    let refused = records.iter().position(|record| record.status == Ok(429)).unwrap();
    records[refused].retry_after = Some(0);
    records[admitted].rl_reset = None;
    let violations = check(&records).violations;
    assert!(
        violations.iter().any(|violation| matches!(violation, Violation::NoRetryAfter(_))),
        "{violations:?}"
    );
    assert!(
        violations.iter().any(|violation| matches!(violation, Violation::Headerless(_))),
        "{violations:?}"
    );
}

#[test]
fn no_records_are_clean() {
    let report = check(&[]);
    report.assert_clean();
    assert_eq!(report.to_string(), "0 admitted in 0 windows, 0 violations");
}
