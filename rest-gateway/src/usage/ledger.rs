//! Counts in memory, and the numbered reports that carry them away.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use petstore_proto::internal::v1::{ReportUsageRequest, UsageDay, UsageRow};

/// Enough that two threads seldom meet at one lock.
const SHARDS: usize = 64;

/// The most accounts and days that a shard keeps for the core to take: 131,072 in all, in about 12 MiB. Only
/// a long outage of the core fills it; what comes on top is not counted.
const SHARD_CAPACITY: usize = 2_048;

/// The most rows of one report.
pub(super) const MAX_ROWS: usize = 1_000;

/// Counts by account and day.
type Counts = HashMap<(i64, i64), UsageDay>;

/// What is counted and not in the core yet.
///
/// A report is numbered and repeated until it is answered, and the core counts a number once: so an answer
/// that is lost does not make it count twice. While a report is under way, new counts wait for the next one.
#[derive(Debug)]
pub(super) struct Ledger {
    reporter: String,
    hasher: RandomState,
    shards: Box<[Mutex<Counts>]>,
    /// Locked before a shard, where both are.
    last_report: Mutex<LastReport>,
    overflowed: AtomicBool,
}

#[derive(Debug, Default)]
struct LastReport {
    number: i64,
    /// Empty once it is answered.
    rows: Vec<UsageRow>,
}

/// What one account has in the ledger.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    /// The number of the last report.
    pub(super) number: i64,
    /// What that report carries, unless it was answered.
    pub(super) sent: Vec<UsageDay>,
    /// What a later one will carry.
    pub(super) waiting: Vec<UsageDay>,
}

impl Ledger {
    pub(super) fn new(reporter: String) -> Self {
        Self {
            reporter,
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            last_report: Mutex::default(),
            overflowed: AtomicBool::new(false),
        }
    }

    pub(super) fn reporter(&self) -> &str {
        &self.reporter
    }

    pub(super) fn count(&self, account_id: i64, day: i64, status: u16, is_get_pet: bool) {
        let mut shard = self.shard(account_id);
        if shard.len() >= SHARD_CAPACITY && !shard.contains_key(&(account_id, day)) {
            if !self.overflowed.swap(true, Ordering::Relaxed) {
                tracing::warn!("usage is not counted any more: the core has taken no report for too long");
            }
            return;
        }
        let counts = shard.entry((account_id, day)).or_insert(UsageDay { day, ..UsageDay::default() });
        let class = match status {
            429 => &mut counts.refused,
            400..=499 => &mut counts.client_errors,
            500.. => &mut counts.server_errors,
            _ => &mut counts.succeeded, // the service sends no 1xx or 3xx
        };
        *class += 1;
        counts.get_pet += i64::from(is_get_pet);
    }

    /// The report that is to be sent now: the last one again if it was not answered, else what has been
    /// counted since. `None` when there is nothing.
    pub(super) fn next_report(&self) -> Option<ReportUsageRequest> {
        let mut last = self.last_report();
        if last.rows.is_empty() {
            last.rows = self.take_rows();
            if last.rows.is_empty() {
                return None;
            }
            last.number += 1;
        }
        Some(ReportUsageRequest {
            reporter: self.reporter.clone(),
            number: last.number,
            rows: last.rows.clone(),
        })
    }

    /// The core has taken the report.
    pub(super) fn answered(&self, number: i64) {
        let mut last = self.last_report();
        if last.number == number {
            last.rows = Vec::new();
            self.overflowed.store(false, Ordering::Relaxed);
        }
    }

    /// What the account has in the ledger.
    pub(super) fn unreported(&self, account_id: i64) -> Unreported {
        let last = self.last_report();
        let sent = last.rows.iter().filter(|row| row.account_id == account_id).filter_map(|row| row.day);
        let shard = self.shard(account_id);
        let waiting = shard.iter().filter(|((account, _), _)| *account == account_id).map(|(_, day)| *day);
        Unreported { number: last.number, sent: sent.collect(), waiting: waiting.collect() }
    }

    fn take_rows(&self) -> Vec<UsageRow> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            while rows.len() < MAX_ROWS
                && let Some(key) = shard.keys().next().copied()
            {
                let day = shard.remove(&key);
                rows.push(UsageRow { account_id: key.0, day });
            }
        }
        rows
    }

    fn shard(&self, account_id: i64) -> MutexGuard<'_, Counts> {
        // The remainder is below SHARDS.
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
        let index = self.hasher.hash_one(account_id) as usize % self.shards.len();
        lock(&self.shards[index])
    }

    fn last_report(&self) -> MutexGuard<'_, LastReport> {
        self.last_report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(shard: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    shard.lock().unwrap_or_else(PoisonError::into_inner) // never held over an await
}

/// Adds the counts of one part of a day to another's.
pub(super) fn add(to: &mut UsageDay, counts: &UsageDay) {
    to.succeeded += counts.succeeded;
    to.client_errors += counts.client_errors;
    to.refused += counts.refused;
    to.server_errors += counts.server_errors;
    to.get_pet += counts.get_pet;
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 20_777;

    fn ledger() -> Ledger {
        Ledger::new("run".to_owned())
    }

    fn total(report: &ReportUsageRequest) -> i64 {
        report.rows.iter().filter_map(|row| row.day).map(|day| day.succeeded).sum()
    }

    #[test]
    fn answers_are_counted_by_class_and_calls_of_get_pet_beside() {
        let ledger = ledger();
        for status in [200, 201, 204, 400, 404, 410, 429, 429, 500, 503] {
            ledger.count(7, DAY, status, status == 404);
        }
        let day =
            UsageDay { day: DAY, succeeded: 3, client_errors: 3, refused: 2, server_errors: 2, get_pet: 1 };
        let rows = vec![UsageRow { account_id: 7, day: Some(day) }];
        let report = ledger.next_report().unwrap();
        assert_eq!((report.reporter.as_str(), report.number, report.rows), ("run", 1, rows));
    }

    #[test]
    fn a_report_is_repeated_unchanged_until_it_is_answered() {
        let ledger = ledger();
        assert_eq!(ledger.next_report(), None);
        ledger.count(7, DAY, 200, false);
        let first = ledger.next_report().unwrap();
        ledger.count(7, DAY, 200, false);
        assert_eq!(ledger.next_report().unwrap(), first);
        ledger.answered(first.number);
        ledger.answered(first.number);
        let second = ledger.next_report().unwrap();
        assert_eq!((second.number, total(&second)), (2, 1));
        ledger.answered(first.number); // late, and about another
        assert_eq!(ledger.next_report().unwrap(), second);
        ledger.answered(second.number);
        assert_eq!(ledger.next_report(), None);
    }

    #[test]
    fn nothing_is_lost_or_doubled_between_many_threads_and_reports_of_a_thousand_rows() {
        let ledger = ledger();
        let mut reported = 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|n| ledger.count(n % 3_000, DAY, 200, false)));
            }
            while reported < 40_000 {
                if let Some(report) = ledger.next_report() {
                    assert!(report.rows.len() <= MAX_ROWS);
                    reported += total(&report);
                    ledger.answered(report.number);
                }
            }
        });
        assert_eq!((reported, ledger.next_report()), (40_000, None));
    }

    #[test]
    fn a_core_that_is_away_for_long_does_not_fill_the_memory() {
        let ledger = ledger();
        for account in 0..200_000 {
            ledger.count(account, DAY, 200, false);
        }
        ledger.count(0, DAY, 200, false);
        let kept: usize = ledger.shards.iter().map(|shard| lock(shard).len()).sum();
        assert!(kept <= SHARDS * SHARD_CAPACITY && kept > 100_000, "{kept} are kept");
        assert_eq!(ledger.unreported(0).waiting[0].succeeded, 2, "who is there is still counted");
    }
}
