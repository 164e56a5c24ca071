//! Checks the records of a [`load`](crate::load): the limits must be exact, and the headers true.
//!
//! The records are grouped into windows. A window has the records of one account with one limit and one
//! reset. A gateway that counts locally (`X-RateLimit-Scope: node`) has separate windows. Then, in each
//! window:
//!
//! - at most as many requests were admitted as the limit;
//! - exactly as many, if one was refused because the window was used up (less those whose fate is unknown);
//! - none was admitted after a refusal;
//! - no two requests show one number remaining, and a request that was sent after another's answer shows
//!   fewer.
//!
//! Only answers whose order is certain are compared: one had returned before the other was sent.
//!
//! This holds if the accounts' plans do not change, Redis is not flushed, and the window under test is the
//! one that is shown. Give the accounts a day limit that is never reached.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use crate::load::Record;

/// Identity of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Account of the window.
    pub account: usize,
    /// End of the window, in Unix seconds.
    pub reset: u64,
    /// Limit that its answers show.
    pub limit: u64,
    /// Gateway, if each counts locally.
    pub node: Option<usize>,
}

/// Number of answers in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Answers that counted: any status but 401, 429 and 5xx.
    pub admitted: u64,
    /// Answers 429 because the window was used up.
    pub refused: u64,
}

/// Violation of a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// More were admitted than the limit.
    OverAdmitted(Window, Count),
    /// The window was reported as used up before it was.
    UnderAdmitted(Window, Count),
    /// A request was admitted that was sent after another had been refused.
    AdmittedAfterRefusal(Window),
    /// Two admitted requests show the same number remaining.
    RemainingRepeated(Window, u64),
    /// A request that was sent after another's answer shows as many or more remaining.
    RemainingRose(Window, u64),
    /// An answer lacks one of the three headers.
    Headerless(Box<Record>),
    /// An answer 429 without a `Retry-After` of at least 1.
    NoRetryAfter(Box<Record>),
}

/// Result of checking a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counts of every window.
    pub windows: BTreeMap<Window, Count>,
    /// Violations; empty if the promises were kept.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Returns the number of all admitted requests.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.windows.values().map(|count| count.admitted).sum()
    }

    /// Fails the test with the first violations.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} admitted in {} windows, ", self.admitted(), self.windows.len())?;
        write!(f, "{} violations", self.violations.len())?;
        self.violations.iter().take(5).try_for_each(|violation| write!(f, "\n  {violation:?}"))
    }
}

/// Checks the records, in any order.
#[must_use]
pub fn check(records: &[Record]) -> Report {
    let mut report = Report::default();
    let (mut windows, mut unknown) = (BTreeMap::<Window, Vec<&Record>>::new(), BTreeMap::<usize, u64>::new());
    for record in records {
        match record.status {
            Err(crate::load::NoAnswer::NotSent) => continue,
            Err(_) | Ok(500..) => *unknown.entry(record.account).or_default() += 1,
            Ok(_) => {}
        }
        if record.status == Ok(429) && record.retry_after.is_none_or(|secs| secs == 0) {
            report.violations.push(Violation::NoRetryAfter(Box::new(record.clone())));
        }
        match window_of(record) {
            Some(window) => windows.entry(window).or_default().push(record),
            None if record.status.is_ok() => {
                report.violations.push(Violation::Headerless(Box::new(record.clone())));
            }
            None => {}
        }
    }
    for (window, records) in &windows {
        let count = judge(*window, records, unknown.get(&window.account).copied().unwrap_or(0), &mut report);
        report.windows.insert(*window, count);
    }
    report
}

fn window_of(record: &Record) -> Option<Window> {
    let node = (record.scope.as_deref() == Some("node")).then_some(record.gateway);
    let (reset, limit, _) = (record.rl_reset?, record.rl_limit?, record.rl_remaining?);
    Some(Window { account: record.account, reset, limit, node })
}

/// Returns `true` if the request has certainly counted.
fn is_admitted(record: &Record) -> bool {
    matches!(record.status, Ok(status) if !matches!(status, 401 | 429 | 500..))
}

/// Returns `true` if the request was refused because the window was used up. The 429 of a ban does not count.
fn is_refused(record: &Record) -> bool {
    record.status == Ok(429) && record.code.as_deref() != Some("API_KEY_BANNED")
}

fn judge(window: Window, records: &[&Record], unknown: u64, report: &mut Report) -> Count {
    let mut admitted: Vec<_> = records.iter().copied().filter(|record| is_admitted(record)).collect();
    let first_refusal = records.iter().filter(|record| is_refused(record)).map(|record| record.ret_ns).min();
    let refused = records.iter().filter(|record| is_refused(record)).count();
    let count = Count { admitted: admitted.len() as u64, refused: refused as u64 };
    if count.admitted > window.limit {
        report.violations.push(Violation::OverAdmitted(window, count));
    }
    // A gateway on its own starts from its last state: its window may be used up with less.
    if window.node.is_none() && count.refused > 0 && count.admitted + unknown < window.limit {
        report.violations.push(Violation::UnderAdmitted(window, count));
    }
    if first_refusal.is_some_and(|refusal| admitted.iter().any(|record| record.inv_ns > refusal)) {
        report.violations.push(Violation::AdmittedAfterRefusal(window));
    }
    let mut seen = HashSet::new();
    for remaining in admitted.iter().filter_map(|record| record.rl_remaining) {
        if !seen.insert(remaining) {
            report.violations.push(Violation::RemainingRepeated(window, remaining));
        }
    }
    admitted.sort_by_key(|record| record.inv_ns);
    let rises = remaining_rises(&admitted);
    report.violations.extend(rises.into_iter().map(|remaining| Violation::RemainingRose(window, remaining)));
    count
}

/// Returns the numbers remaining that are not below that of some request answered before theirs was sent.
/// Takes the requests in the order of sending.
fn remaining_rises(by_sending: &[&Record]) -> Vec<u64> {
    let mut by_answer = by_sending.to_vec();
    by_answer.sort_by_key(|record| record.ret_ns);
    let (mut answered, mut least, mut rises) = (by_answer.into_iter().peekable(), u64::MAX, Vec::new());
    for record in by_sending {
        while let Some(before) = answered.next_if(|before| before.ret_ns < record.inv_ns) {
            least = least.min(before.rl_remaining.unwrap_or(u64::MAX));
        }
        rises.extend(record.rl_remaining.filter(|remaining| *remaining >= least));
    }
    rises
}

#[cfg(test)]
mod tests;
