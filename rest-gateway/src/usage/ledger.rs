//! Counts in memory, and the numbered reports that carry them away.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use petstore_proto::internal::v1::{ReportUsageRequest, UsageDay, UsageMinuteRow, UsageRow};

use super::refusals::RefusalLedger;
use crate::keys::KnownKey;

/// Enough that two threads seldom meet at one lock.
const SHARDS: usize = 64;

/// The most accounts and days that a shard keeps for the core to take: 131,072 in all, in about 12 MiB. Only
/// a long outage of the core fills it; what comes on top is not counted.
const SHARD_DAYS: usize = 2_048;

/// The most keys and minutes that a shard keeps: 65,536 in all, in about 16 MiB with what is known of the
/// keys. What comes on top is counted by account and day alone.
const SHARD_MINUTES: usize = 1_024;

/// The most rows of one report, of days and of minutes.
pub(super) const MAX_ROWS: usize = 1_000;

const MINUTES_OF_DAY: i64 = 1_440;

/// What one shard of accounts has counted.
#[derive(Debug, Default)]
struct Shard {
    /// By key and minute: what every request counts in. Keys are told apart by where they are in memory,
    /// which hashes faster than their name; each is held for as long, so that no other one is there.
    minutes: HashMap<(usize, i64), Counted>,
    /// By account and day: what the minutes had no room for.
    days: HashMap<(i64, i64), UsageDay>,
}

/// The requests of a key in a minute.
#[derive(Debug)]
struct Counted {
    key: Arc<KnownKey>,
    /// Of the day that the minute is of.
    counts: UsageDay,
}

/// What is counted and not in the core yet.
///
/// A report is numbered and repeated until it is answered, and the core counts a number once: so an answer
/// that is lost does not make it count twice. While a report is under way, new counts wait for the next one.
#[derive(Debug)]
pub(super) struct Ledger {
    reporter: String,
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    refusals: RefusalLedger,
    /// Locked before a shard, where both are.
    last_report: Mutex<LastReport>,
    overflowed: AtomicBool,
}

#[derive(Debug, Default)]
struct LastReport {
    number: i64,
    /// `None` once it is answered.
    unanswered: Option<ReportUsageRequest>,
}

/// What one account has in the ledger.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    /// The number of the last report.
    pub(super) number: i64,
    /// What that report carries, unless it was answered. A day may be there several times.
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
            refusals: RefusalLedger::default(),
            last_report: Mutex::default(),
            overflowed: AtomicBool::new(false),
        }
    }

    pub(super) fn reporter(&self) -> &str {
        &self.reporter
    }

    pub(super) const fn refusals(&self) -> &RefusalLedger {
        &self.refusals
    }

    pub(super) fn count(&self, key: &Arc<KnownKey>, minute: i64, status: u16, is_get_pet: bool) {
        let mut shard = self.shard(key.account_id);
        let id = (Arc::as_ptr(key).addr(), minute);
        if shard.minutes.len() >= SHARD_MINUTES && !shard.minutes.contains_key(&id) {
            self.fold(&mut shard);
        }
        let new = || Counted {
            key: Arc::clone(key),
            counts: UsageDay { day: minute.div_euclid(MINUTES_OF_DAY), ..UsageDay::default() },
        };
        let counts = &mut shard.minutes.entry(id).or_insert_with(new).counts;
        let class = match status {
            429 => &mut counts.refused,
            400..=499 => &mut counts.client_errors,
            500.. => &mut counts.server_errors,
            _ => &mut counts.succeeded, // the service sends no 1xx or 3xx
        };
        *class += 1;
        counts.get_pet += i64::from(is_get_pet);
    }

    /// Makes room for minutes: what they counted is kept by account and day.
    fn fold(&self, shard: &mut Shard) {
        let Shard { minutes, days } = shard;
        for (_, Counted { key, counts }) in minutes.drain() {
            let id = (key.account_id, counts.day);
            if days.len() < SHARD_DAYS || days.contains_key(&id) {
                add_to(days, id, &counts);
            } else if !self.overflowed.swap(true, Ordering::Relaxed) {
                tracing::warn!("usage is not counted any more: the core has taken no report for too long");
            }
        }
    }

    /// The report that is to be sent now: the last one again if it was not answered, else what has been
    /// counted since. `None` when there is nothing.
    pub(super) fn next_report(&self) -> Option<ReportUsageRequest> {
        let mut last = self.last_report();
        if last.unanswered.is_none() {
            let mut report = self.take_rows();
            (report.refusals, report.refusal_counts) = self.refusals.take();
            if report.rows.is_empty() && report.refusal_counts.is_empty() {
                return None;
            }
            last.number += 1;
            report.number = last.number;
            last.unanswered = Some(report);
        }
        last.unanswered.clone()
    }

    /// The core has taken the report.
    pub(super) fn answered(&self, number: i64) {
        let mut last = self.last_report();
        if last.number == number {
            last.unanswered = None;
            self.overflowed.store(false, Ordering::Relaxed);
        }
    }

    /// What the account has in the ledger.
    pub(super) fn unreported(&self, account_id: i64) -> Unreported {
        let last = self.last_report();
        let rows = last.unanswered.iter().flat_map(|report| &report.rows);
        let sent = rows.filter(|row| row.account_id == account_id).filter_map(|row| row.day);
        let shard = self.shard(account_id);
        let days = shard.days.iter().filter(|((account, _), _)| *account == account_id).map(|(_, day)| *day);
        let minutes = shard.minutes.values().filter(|counted| counted.key.account_id == account_id);
        let waiting = days.chain(minutes.map(|counted| counted.counts));
        Unreported { number: last.number, sent: sent.collect(), waiting: waiting.collect() }
    }

    /// As many counts as a report may have. Each minute is in its day too.
    fn take_rows(&self) -> ReportUsageRequest {
        let mut days = HashMap::new();
        let mut minutes = HashMap::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let Shard { minutes: by_minute, days: by_day } = &mut *shard;
            let room = MAX_ROWS - days.len();
            for (id, counts) in by_day.extract_if(|_, _| true).take(room) {
                add_to(&mut days, id, &counts);
            }
            let room = MAX_ROWS - days.len().max(minutes.len());
            for ((_, minute), Counted { key, counts }) in by_minute.extract_if(|_, _| true).take(room) {
                add_to(&mut days, (key.account_id, counts.day), &counts);
                // A key that was resolved anew meanwhile is there twice.
                add_to(&mut minutes, (key.account_id, Arc::clone(&key.key_id), minute), &counts);
            }
        }
        let days = days.into_iter().map(|((account_id, _), day)| UsageRow { account_id, day: Some(day) });
        ReportUsageRequest {
            reporter: self.reporter.clone(),
            rows: days.collect(),
            minutes: minutes.into_iter().map(minute_row).collect(),
            ..ReportUsageRequest::default()
        }
    }

    fn shard(&self, account_id: i64) -> MutexGuard<'_, Shard> {
        // The remainder is below SHARDS.
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
        let index = self.hasher.hash_one(account_id) as usize % self.shards.len();
        lock(&self.shards[index])
    }

    fn last_report(&self) -> MutexGuard<'_, LastReport> {
        self.last_report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner) // never held over an await
}

fn minute_row(((account_id, key_id, minute), counts): ((i64, Arc<str>, i64), UsageDay)) -> UsageMinuteRow {
    let UsageDay { day: _, succeeded, client_errors, refused, server_errors, get_pet } = counts;
    let key_id = key_id.to_string();
    UsageMinuteRow { account_id, key_id, minute, succeeded, client_errors, refused, server_errors, get_pet }
}

fn add_to<K: Eq + std::hash::Hash>(all: &mut HashMap<K, UsageDay>, key: K, counts: &UsageDay) {
    add(all.entry(key).or_insert(UsageDay { day: counts.day, ..UsageDay::default() }), counts);
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
mod tests;
