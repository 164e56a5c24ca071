//! The rules, each over the whole record.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use super::{
    Conditions, Count, InterruptionKind, NoAnswer, Record, Report, StoredPet, Violation, Window, acknowledged,
};

/// Limit of a client's address (docs/contract.md, 6.9), which answers show if the key could not be checked.
const ADDRESS_LIMIT: u64 = 600;
/// Length of a window, and the time after which a request that was given up has certainly ended.
const WINDOW_NS: u64 = 60_000_000_000;
const ENDED_NS: u64 = 15_000_000_000;

/// Rule of the contract that a history must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A pet that was acknowledged is stored (7.3.6).
    NothingLost,
    /// It is stored as it was acknowledged, and a repeated request gets the same pet (7.4.2).
    NothingChanged,
    /// No pet is stored twice (7.4.2, 7.4.5).
    NothingDuplicated,
    /// At most as many requests are admitted as the limit (6.3.3). A gateway that counts by itself admits at
    /// most its share, less its part of what it has seen of the shared count (6.10.2).
    LimitIsKept,
    /// A request is refused only once the limit is used up (6.3.3).
    LimitIsGranted,
    /// None is admitted after a refusal of the same window (6.3.3).
    RefusalLasts,
    /// No two requests show one number remaining (6.5).
    RemainingIsUnique,
    /// A request that was sent after another's answer shows fewer remaining (6.5).
    RemainingFalls,
    /// The limit shown is the account's, or the gateway's share of it (6.5, 6.10.2).
    LimitIsShown,
    /// Every answer has each of the three header fields once (3.1).
    HeadersAreThere,
    /// 409, 429 and 503 have a `Retry-After` of at least 1 (6.4.2, 8.5).
    RetryAfterIsThere,
    /// Every error has one of the contract's codes, with its status, and none is `INTERNAL` (8.6).
    CodeIsDecided,
    /// Every request is answered in time (7.3.2, 11.7).
    AnswerIsInTime,
    /// Only the death of a gateway leaves a request without an answer, and only one that is down accepts
    /// none (10.4).
    AnswerIsThere,
}

/// Checks the records, in any order.
pub(super) fn check(conditions: &Conditions, records: &[Record]) -> Report {
    let mut judge = Judge { conditions, report: Report::default() };
    judge.pets(records);
    let mut windows = BTreeMap::<Window, Vec<&Record>>::new();
    for record in records {
        judge.request(record);
        if let Some(window) = judge.window(record) {
            windows.entry(window).or_default().push(record);
        }
    }
    for (window, mut of_window) in windows {
        of_window.sort_by_key(|record| record.inv_ns);
        judge.limit(window, &of_window, records);
    }
    judge.shares(records);
    judge.report.violations.sort_by_key(|violation| violation.rule);
    judge.report
}

/// Returns the HTTP status that the error guide gives to a code.
pub(super) fn http_status(code: &str) -> Option<u16> {
    let row = include_str!("../../../../docs/errors.md")
        .lines()
        .find_map(|line| line.strip_prefix("| `")?.strip_prefix(code)?.strip_prefix("` | "));
    row?.get(..3)?.parse().ok()
}

struct Judge<'a> {
    conditions: &'a Conditions,
    report: Report,
}

impl Judge<'_> {
    fn violation(&mut self, rule: Rule, evidence: String) {
        self.report.violations.push(Violation { rule, evidence });
    }

    /// Compares the acknowledged pets with all that are stored.
    fn pets(&mut self, records: &[Record]) {
        let mut answers = BTreeMap::<&str, Vec<&StoredPet>>::new();
        for pet in records.iter().flat_map(acknowledged) {
            answers.entry(&pet.name).or_default().push(pet);
        }
        self.report.acknowledged = answers.len();
        let Some(stored) = &self.conditions.stored else { return };
        self.report.stored = stored.len();
        let mut by_name = BTreeMap::<&str, &StoredPet>::new();
        let duplicated: Vec<_> =
            stored.iter().filter(|pet| by_name.insert(&pet.name, pet).is_some()).collect();
        for pet in duplicated {
            self.violation(Rule::NothingDuplicated, format!("{pet:?}"));
        }
        for (name, pets) in answers {
            let Some(kept) = by_name.get(name) else {
                self.violation(Rule::NothingLost, format!("{pets:?}"));
                continue;
            };
            let is_kept =
                |pet: &StoredPet| pet.category_id == kept.category_id && (pet.id == 0 || pet.id == kept.id);
            if !pets.iter().all(|pet| is_kept(pet)) {
                self.violation(Rule::NothingChanged, format!("{pets:?} is {kept:?}"));
            }
        }
    }

    /// Judges what one request shows by itself.
    fn request(&mut self, record: &Record) {
        let is_limited = record.gateway.is_some();
        let fields = [record.rl_limit, record.rl_remaining, record.rl_reset];
        let mut broken = Vec::new();
        if let Ok(status) = record.status {
            if is_limited && fields.contains(&None) {
                broken.push(Rule::HeadersAreThere);
            }
            if matches!(status, 409 | 429 | 503) && record.retry_after.is_none_or(|secs| secs == 0) {
                broken.push(Rule::RetryAfterIsThere);
            }
            let code = record.code.as_deref().unwrap_or_default();
            if status >= 400 && (code == "INTERNAL" || http_status(code) != Some(status)) {
                broken.push(Rule::CodeIsDecided);
            }
            if is_limited && !self.shows_a_right_limit(record) {
                broken.push(Rule::LimitIsShown);
            }
        }
        if let Some(deadline) = self.conditions.deadline {
            if record.latency().saturating_sub(self.paused(record)) > deadline {
                broken.push(Rule::AnswerIsInTime);
            }
            if !self.may_lack_its_answer(record) {
                broken.push(Rule::AnswerIsThere);
            }
        }
        for rule in broken {
            self.violation(rule, format!("{record:?}"));
        }
    }

    fn may_lack_its_answer(&self, record: &Record) -> bool {
        let is = |kind| {
            self.conditions
                .interruptions
                .iter()
                .any(|interruption| interruption.kind == kind && interruption.overlap(record).is_some())
        };
        match record.status {
            Ok(_) => true,
            // What happens to a direct call to a core is not recorded.
            Err(_) if record.gateway.is_none() => true,
            Err(NoAnswer::NotSent) => is(InterruptionKind::Stopped) || is(InterruptionKind::Killed),
            Err(NoAnswer::Broken | NoAnswer::TimedOut) => is(InterruptionKind::Killed),
        }
    }

    /// Returns the time of the request in which its gateway was paused.
    fn paused(&self, record: &Record) -> Duration {
        let pauses = self.conditions.interruptions.iter().filter(|one| one.kind == InterruptionKind::Paused);
        pauses.filter_map(|pause| pause.overlap(record)).sum()
    }

    /// Returns a limit as this answer has to show it: whole, or the gateway's share.
    fn shown(&self, record: &Record, limit: u64) -> u64 {
        if is_local(record) { (limit / self.conditions.gateways.max(1)).max(1) } else { limit }
    }

    fn shows_a_right_limit(&self, record: &Record) -> bool {
        let Some(limit) = self.conditions.limits.get(&record.account) else { return true };
        let is = |limit| record.rl_limit == Some(self.shown(record, limit));
        match record.status {
            Ok(401 | 403 | 503) => is(*limit) || is(ADDRESS_LIMIT),
            _ => is(*limit),
        }
    }

    /// Returns `true` if the request has certainly counted. An error of the core counts, but an answer shows
    /// that only if the account's limit is known.
    fn is_admitted(&self, record: &Record) -> bool {
        match record.status {
            Ok(401 | 403 | 429) | Err(_) => false,
            Ok(500..) => {
                let limit = self.conditions.limits.get(&record.account);
                limit.is_some_and(|limit| record.rl_limit == Some(self.shown(record, *limit)))
            }
            Ok(_) => true,
        }
    }

    fn window(&self, record: &Record) -> Option<Window> {
        let (reset, limit, _) = (record.rl_reset?, record.rl_limit?, record.rl_remaining?);
        let is_of_node = self.conditions.counts_in_memory || is_local(record);
        let node = record.gateway.filter(|_| is_of_node);
        Some(Window { account: record.account, reset, limit, node })
    }

    /// Judges one window. Takes its records by time of sending, and all records.
    fn limit(&mut self, window: Window, of_window: &[&Record], all: &[Record]) {
        let admitted: Vec<_> = of_window.iter().copied().filter(|record| self.is_admitted(record)).collect();
        let refused: Vec<_> = of_window.iter().filter(|record| is_refused(record)).collect();
        let count = Count { admitted: admitted.len() as u64, refused: refused.len() as u64 };
        self.report.windows.insert(window, count);
        let evidence = format!("{window:?}: {count:?}");
        if count.admitted > window.limit {
            self.violation(Rule::LimitIsKept, evidence.clone());
        }
        // A gateway on its own starts from its last state: its window may be used up with less.
        let is_shared = of_window.iter().all(|record| !is_local(record));
        if let (true, Some(last)) = (is_shared, refused.iter().map(|record| record.ret_ns).max()) {
            let first = of_window.first().map_or(0, |record| record.inv_ns);
            let may_count = |record: &&Record| {
                let is_unknown = match record.status {
                    Err(reason) => reason != NoAnswer::NotSent,
                    Ok(status) => is_local(record) || status >= 500 && !self.is_admitted(record),
                };
                let is_near = record.inv_ns < last && record.ret_ns + ENDED_NS + WINDOW_NS > first;
                record.account == window.account && is_unknown && is_near
            };
            if count.admitted + (all.iter().filter(may_count).count() as u64) < window.limit {
                self.violation(Rule::LimitIsGranted, evidence.clone());
            }
        }
        let first_refusal = refused.iter().map(|record| record.ret_ns).min();
        if first_refusal.is_some_and(|refusal| admitted.iter().any(|record| record.inv_ns > refusal)) {
            self.violation(Rule::RefusalLasts, evidence);
        }
        let mut seen = HashSet::new();
        for record in &admitted {
            if !seen.insert(record.rl_remaining) {
                self.violation(Rule::RemainingIsUnique, format!("{record:?}"));
            }
        }
        for record in remaining_rises(&admitted) {
            self.violation(Rule::RemainingFalls, format!("{record:?}"));
        }
    }

    /// Judges what gateways admit by themselves: each starts from its part of the last shared count that it
    /// saw, and counts its own admissions.
    fn shares(&mut self, records: &[Record]) {
        let Some(gateways) = Some(self.conditions.gateways).filter(|gateways| *gateways > 0) else { return };
        let mut of_process = BTreeMap::<_, Vec<&Record>>::new();
        for record in records.iter().filter(|record| self.is_admitted(record) || is_refused(record)) {
            let process = (record.account, record.gateway, record.rl_reset);
            of_process.entry(process).or_default().push(record);
        }
        let mut violations = Vec::new();
        for of_process in of_process.values() {
            for record in of_process.iter().filter(|record| is_local(record) && self.is_admitted(record)) {
                let before = || of_process.iter().filter(|before| before.ret_ns < record.inv_ns);
                let own =
                    before().filter(|before| is_local(before) && self.is_admitted(before)).count() as u64;
                let shared = before()
                    .filter(|before| !is_local(before))
                    .filter_map(|before| Some(before.rl_limit?.saturating_sub(before.rl_remaining?)));
                let part = shared.max().unwrap_or(0).div_ceil(gateways);
                let left = record.rl_limit.unwrap_or(0).saturating_sub(own + part);
                if record.rl_remaining.is_none_or(|remaining| remaining >= left) {
                    let seen = format!("{own} admitted alone, a part of {part} seen");
                    let evidence = format!("{seen}: {record:?}");
                    violations.push(Violation { rule: Rule::LimitIsKept, evidence });
                }
            }
        }
        self.report.violations.extend(violations);
    }
}

fn is_local(record: &Record) -> bool {
    record.scope.as_deref() == Some("node")
}

/// Returns `true` if the request was refused because the window was used up. The 429 of a ban does not count.
fn is_refused(record: &Record) -> bool {
    record.status == Ok(429) && record.code.as_deref() != Some("API_KEY_BANNED")
}

/// Returns the requests whose number remaining is not below that of some request answered before they were
/// sent. Takes them by time of sending.
fn remaining_rises<'a>(by_sending: &[&'a Record]) -> Vec<&'a Record> {
    let mut by_answer = by_sending.to_vec();
    by_answer.sort_by_key(|record| record.ret_ns);
    let (mut answered, mut least, mut rises) = (by_answer.into_iter().peekable(), u64::MAX, Vec::new());
    for record in by_sending {
        while let Some(before) = answered.next_if(|before| before.ret_ns < record.inv_ns) {
            least = least.min(before.rl_remaining.unwrap_or(u64::MAX));
        }
        rises.extend(record.rl_remaining.filter(|remaining| *remaining >= least).map(|_| *record));
    }
    rises
}
