//! Tests of the rules, against an exact limiter and against forged records. Each rule has a record that
//! violates it.

use proptest::prelude::{prop, prop_assert, proptest};

use super::*;

const LIMIT: u64 = 10;

/// One request of a simulated history: its start, and the time until it is counted and answered.
#[derive(Clone, Copy, Debug)]
struct Request {
    sent: u64,
    counts: u64,
    answers: u64,
}

/// Runs the requests through a limiter that admits `limit`, in the order of time. The limit shown is
/// [`LIMIT`] in any case.
fn play(limit: u64, requests: &[Request]) -> Vec<Record> {
    let mut order: Vec<_> = (0..requests.len()).collect();
    order.sort_by_key(|place| requests[*place].sent + requests[*place].counts);
    let mut found = vec![LIMIT; requests.len()];
    for (used, place) in (0..limit).zip(order) {
        found[place] = used;
    }
    let records = requests.iter().zip(found).enumerate();
    records.map(|(place, (request, used))| record(place, *request, used)).collect()
}

fn record(place: usize, request: Request, used: u64) -> Record {
    let is_admitted = used < LIMIT;
    Record {
        inv_ns: request.sent,
        ret_ns: request.sent + request.counts + request.answers,
        gateway: Some(place % 2),
        adds: Vec::new(),
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
    (0..3 * LIMIT).map(|place| Request { sent: place * 10, counts: 5, answers: 35 }).collect()
}

/// Returns requests one after another.
fn calm() -> Vec<Request> {
    (0..3 * LIMIT).map(|place| Request { sent: place * 100, counts: 5, answers: 35 }).collect()
}

#[test]
fn an_exact_limiter_is_clean() {
    let report = check(&play(LIMIT, &busy()));
    report.assert_clean();
    assert_eq!(report.admitted(), LIMIT);
    assert_eq!(report.windows.len(), 1);
}

proptest! {
    #[test]
    fn an_exact_limiter_is_never_accused(
        times in prop::collection::vec((0..500_u64, 1..50_u64, 1..100_u64), 0..40),
    ) {
        let requests: Vec<_> = times
            .into_iter()
            .map(|(sent, counts, answers)| Request { sent, counts, answers })
            .collect();
        let report = check(&play(LIMIT, &requests));
        prop_assert!(report.violations.is_empty(), "{}", report);
    }
}

#[test]
fn a_limiter_that_refuses_one_too_early_is_found() {
    let report = check(&play(LIMIT - 1, &busy()));
    assert_eq!(rules(&report), [Rule::LimitIsGranted], "{report}");
}

#[test]
fn a_request_without_an_answer_may_have_counted() {
    for unknown in [Err(NoAnswer::Broken), Err(NoAnswer::TimedOut), Ok(503)] {
        let mut records = play(LIMIT, &busy());
        records[3].status = unknown;
        (records[3].code, records[3].retry_after) = (Some("UNAVAILABLE".to_owned()), Some(1));
        check(&records).assert_clean();
    }
    let mut records = play(LIMIT, &busy());
    records[3].status = Err(NoAnswer::NotSent);
    assert_eq!(
        rules(&check(&records)),
        [Rule::LimitIsGranted],
        "one that was never sent cannot have counted"
    );
    let mut records = play(LIMIT, &busy());
    records[3].status = Err(NoAnswer::Broken);
    for late in &mut records[4..] {
        (late.inv_ns, late.ret_ns) = (late.inv_ns + 100_000_000_000, late.ret_ns + 100_000_000_000);
    }
    records.drain(..3);
    assert_eq!(rules(&check(&records)), [Rule::LimitIsGranted], "it counted in an earlier window");
}

#[test]
fn an_error_of_the_core_has_counted_if_it_shows_the_accounts_limit() {
    let mut records = play(LIMIT, &calm());
    records[3].status = Ok(504);
    records[3].code = Some("DEADLINE_EXCEEDED".to_owned());
    assert_eq!(limited().check(&records).admitted(), LIMIT);
    assert_eq!(check(&records).admitted(), LIMIT - 1, "it may be the limit of its address");
}

#[test]
fn a_ban_does_not_say_that_a_window_is_used_up() {
    let mut records = play(LIMIT, &calm());
    records.retain(|record| record.status == Ok(429) || record.inv_ns < 300);
    assert_eq!(rules(&check(&records)), [Rule::LimitIsGranted]);
    for record in records.iter_mut().filter(|record| record.status == Ok(429)) {
        record.code = Some("API_KEY_BANNED".to_owned());
        record.rl_reset = Some(600);
    }
    check(&records).assert_clean();
}

/// Tests each rule with a history that keeps all of them but for one forged record (negative control). A rule
/// that accepted its forgery would accept anything.
#[test]
fn a_forged_record_is_found_by_each_rule() {
    const LAST: Rule = Rule::AnswerIsThere;
    let (records, conditions) = honest();
    conditions.check(&records).assert_clean();
    assert_eq!(ALL.len(), LAST as usize + 1);
    for rule in ALL {
        let (records, conditions) = forged(rule);
        let report = conditions.check(&records);
        assert!(report.violates(rule), "{rule:?}: {report}");
    }
}

const ALL: [Rule; 14] = [
    Rule::NothingLost,
    Rule::NothingChanged,
    Rule::NothingDuplicated,
    Rule::LimitIsKept,
    Rule::LimitIsGranted,
    Rule::RefusalLasts,
    Rule::RemainingIsUnique,
    Rule::RemainingFalls,
    Rule::LimitIsShown,
    Rule::HeadersAreThere,
    Rule::RetryAfterIsThere,
    Rule::CodeIsDecided,
    Rule::AnswerIsInTime,
    Rule::AnswerIsThere,
];

fn forged(rule: Rule) -> (Vec<Record>, Conditions) {
    let (mut records, mut conditions) = honest();
    let stored = conditions.stored.as_mut().unwrap();
    // The first ten were admitted and added pets, the others were refused.
    match rule {
        Rule::NothingLost => drop(stored.remove(4)),
        Rule::NothingChanged => stored[4].category_id += 1,
        Rule::NothingDuplicated => stored.push(StoredPet { id: 99, ..stored[4].clone() }),
        Rule::LimitIsKept => {
            records[10].status = Ok(200);
            (records[10].code, records[10].retry_after) = (None, None);
        }
        Rule::LimitIsGranted => drop(records.remove(4)),
        Rule::RefusalLasts => (records[10].inv_ns, records[10].ret_ns) = (0, 1),
        Rule::RemainingIsUnique => records[4].rl_remaining = records[5].rl_remaining,
        Rule::RemainingFalls => {
            (records[4].inv_ns, records[5].inv_ns) = (records[5].inv_ns, records[4].inv_ns);
            (records[4].ret_ns, records[5].ret_ns) = (records[5].ret_ns, records[4].ret_ns);
        }
        Rule::LimitIsShown => records[4].rl_limit = Some(LIMIT + 1),
        Rule::HeadersAreThere => records[4].rl_reset = None,
        Rule::RetryAfterIsThere => records[10].retry_after = Some(0),
        Rule::CodeIsDecided => records[10].code = Some("QUOTA_EXCEEDED_BY_FAR".to_owned()),
        Rule::AnswerIsInTime => records[4].ret_ns += 6_000_000_000,
        Rule::AnswerIsThere => records[4].status = Err(NoAnswer::Broken),
    }
    (records, conditions)
}

/// Returns a history that keeps every rule: ten of thirty requests are admitted and add a pet each.
fn honest() -> (Vec<Record>, Conditions) {
    let mut records = play(LIMIT, &calm());
    let mut stored = vec![pet(90, "never acknowledged")];
    for (id, record) in (1..).zip(&mut records) {
        if record.status == Ok(200) {
            record.status = Ok(201);
            record.adds = vec![pet(id, &format!("Pet {id}"))];
            stored.extend(record.adds.clone());
        }
    }
    let deadline = Some(Duration::from_secs(5));
    (records, Conditions { stored: Some(stored), deadline, ..limited() })
}

fn limited() -> Conditions {
    Conditions { limits: BTreeMap::from([(7, LIMIT)]), gateways: 2, ..Conditions::default() }
}

fn pet(id: i64, name: &str) -> StoredPet {
    StoredPet { id, name: name.to_owned(), category_id: 1 }
}

fn rules(report: &Report) -> Vec<Rule> {
    report.violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_repeated_request_must_get_the_same_pet_and_may_lack_its_identifier() {
    let (mut records, conditions) = honest();
    // As calls to a core, which have no limits.
    let call = Record { gateway: None, rl_limit: None, ..records[4].clone() };
    records.push(call.clone());
    records.push(Record { adds: vec![StoredPet { id: 0, ..call.adds[0].clone() }], ..call });
    let report = conditions.check(&records);
    report.assert_clean();
    assert_eq!((report.acknowledged, report.stored), (10, 11));
    records[30].adds[0].id = 6;
    assert_eq!(rules(&conditions.check(&records)), [Rule::NothingChanged]);
}

#[test]
fn a_gateway_on_its_own_starts_from_what_it_has_seen_and_shows_its_share() {
    // Gateway 0 has seen 4 of 10 used, so it may admit 5 - 2 by itself.
    let (mut records, conditions) = (play(LIMIT, &calm()), limited());
    records.truncate(4);
    let alone = |number: u64, remaining: u64| Record {
        inv_ns: 1_000 + 100 * number,
        ret_ns: 1_050 + 100 * number,
        gateway: Some(0),
        rl_limit: Some(LIMIT / 2),
        rl_remaining: Some(remaining),
        scope: Some("node".to_owned()),
        ..records[0].clone()
    };
    let start = Record { gateway: Some(0), ..records[3].clone() };
    let of = |remaining: &[u64]| -> Vec<_> {
        let alone = (0..).zip(remaining).map(|(number, remaining)| alone(number, *remaining));
        [start.clone()].into_iter().chain(alone).collect()
    };
    conditions.check(&of(&[2, 1, 0])).assert_clean();
    assert!(conditions.check(&of(&[3, 2, 1, 0])).violates(Rule::LimitIsKept), "its part was forgotten");
    assert!(conditions.check(&of(&[2, 1, 1])).violates(Rule::LimitIsKept), "an admission was forgotten");
    let mut whole = of(&[2]);
    whole[1].rl_limit = Some(LIMIT);
    assert_eq!(rules(&conditions.check(&whole)), [Rule::LimitIsShown]);
    // The next process of the gateway has seen nothing.
    let mut restarted = of(&[4, 3, 2, 1, 0]);
    restarted[1..].iter_mut().for_each(|record| record.gateway = Some(2));
    conditions.check(&restarted).assert_clean();
}

#[test]
fn an_interruption_excuses_only_what_it_explains() {
    use InterruptionKind::{Killed, Paused, Stopped};
    const SECOND: u64 = 1_000_000_000;
    let (records, conditions) = honest();
    let with = |kind, status, late_ns| {
        let (mut records, mut conditions) = (records.clone(), conditions.clone());
        records[4].status = status;
        records[4].ret_ns += late_ns;
        records[4].adds.clear();
        let (from_ns, until_ns) = (records[4].inv_ns + 1, records[4].ret_ns + 1);
        conditions.interruptions = vec![Interruption { gateway: 0, kind, from_ns, until_ns }];
        rules(&conditions.check(&records))
    };
    assert_eq!(with(Paused, Ok(201), 8 * SECOND), []);
    assert_eq!(with(Stopped, Ok(201), 8 * SECOND), [Rule::AnswerIsInTime]);
    assert_eq!(with(Killed, Err(NoAnswer::Broken), 0), []);
    assert_eq!(with(Stopped, Err(NoAnswer::Broken), 0), [Rule::AnswerIsThere]);
    assert_eq!(with(Paused, Err(NoAnswer::TimedOut), SECOND), [Rule::AnswerIsThere]);
    assert_eq!(with(Paused, Err(NoAnswer::NotSent), 0), [Rule::LimitIsGranted, Rule::AnswerIsThere]);
    assert_eq!(with(Stopped, Err(NoAnswer::NotSent), 0), [Rule::LimitIsGranted]);
}
