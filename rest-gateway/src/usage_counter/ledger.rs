//! Counts in memory, and the numbered reports that carry them to the core.

use std::{
    collections::BTreeMap,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use foldhash::{HashMap, fast::RandomState};
use parking_lot::{Mutex, MutexGuard};
use petstore_clock::Minute;
use petstore_key_cache::KnownKey;
use petstore_proto::internal::v1::{ReportUsageRequest, UsageDay, UsageRow};

use super::refusals::RefusalLedger;

/// Number of locks: enough that two threads seldom contend for one.
const SHARDS: usize = 64;

/// Maximum number of accounts and days in a shard: 131,072 in all, in about 12 MiB. Only a long outage of the
/// core reaches it, and further requests are not counted.
const SHARD_DAYS: usize = 2_048;

/// Maximum number of keys and minutes in a shard: 65,536 in all, in about 16 MiB with the keys. Further
/// requests are counted by account and day alone.
const SHARD_MINUTES: usize = 1_024;

/// Maximum number of minutes of requests without an account: two days, in about 300 KiB. Further minutes are
/// not counted.
const MAX_MINUTES: usize = 2 * 24 * 60;

/// Maximum number of rows in one report.
pub(super) const MAX_ROWS: usize = 1_000;

/// Identifier in reports for requests that belong to no account. Those of accounts begin with 1.
const NO_ACCOUNT: i64 = 0;

/// Counts of one shard of accounts.
#[derive(Default)]
struct Shard {
    /// Counts by key and minute. Keys are identified by their address in memory, which hashes faster than
    /// their name. Each key is held here, so that its address is not used again.
    minutes: HashMap<(usize, i64), Counted>,
    /// Counts by account and day, of requests for which the minutes had no room.
    days: HashMap<(i64, i64), UsageDay>,
}

/// Requests of a key in a minute.
struct Counted {
    key: Arc<KnownKey>,
    /// Counts with the day of the minute.
    counts: UsageDay,
}

/// Counts that are not in the core yet.
///
/// A report is numbered and repeated until it is answered. The core counts a number once, so a lost answer
/// does not make it count twice. While a report is in flight, new counts wait for the next one.
pub(super) struct Ledger {
    pub(super) reporter: String,
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// Counts by minute of requests that belong to no account.
    without_account: Mutex<BTreeMap<i64, UsageDay>>,
    pub(super) refusals: RefusalLedger,
    /// Last report. If both this and a shard are locked, this is locked first.
    last_report: Mutex<LastReport>,
    overflowed: AtomicBool,
}

#[derive(Debug, Default)]
struct LastReport {
    number: i64,
    /// `None` once it is answered.
    unanswered: Option<ReportUsageRequest>,
}

/// Counts of one account in the ledger. A day may be there several times.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    /// Number of the last report.
    pub(super) number: i64,
    /// Counts in that report, unless it was answered.
    pub(super) sent: Vec<UsageDay>,
    /// Counts for a later report.
    pub(super) waiting: Vec<UsageDay>,
}

impl Ledger {
    pub(super) fn new(reporter: String) -> Self {
        Self {
            reporter,
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            without_account: Mutex::default(),
            refusals: RefusalLedger::default(),
            last_report: Mutex::default(),
            overflowed: AtomicBool::new(false),
        }
    }

    pub(super) fn count(&self, key: &Arc<KnownKey>, minute: i64, status: u16, is_get_pet: bool) {
        let mut shard = self.shard(key.account_id);
        let id = (Arc::as_ptr(key).addr(), minute);
        if shard.minutes.len() >= SHARD_MINUTES && !shard.minutes.contains_key(&id) {
            self.fold(&mut shard);
        }
        let new = || Counted { key: Arc::clone(key), counts: none_in(minute) };
        let counts = &mut shard.minutes.entry(id).or_insert_with(new).counts;
        count_one(counts, status);
        counts.get_pet += i64::from(is_get_pet);
    }

    /// Counts a request that belongs to no account.
    pub(super) fn count_without_account(&self, minute: i64, status: u16) {
        let mut minutes = self.without_account.lock();
        if minutes.len() < MAX_MINUTES || minutes.contains_key(&minute) {
            count_one(minutes.entry(minute).or_insert_with(|| none_in(minute)), status);
        } else {
            self.warn_of_overflow();
        }
    }

    /// Warns once until the next report is answered.
    fn warn_of_overflow(&self) {
        if !self.overflowed.swap(true, Ordering::Relaxed) {
            tracing::warn!("usage is no longer counted: the core has not accepted a report for too long");
        }
    }

    /// Makes room for minutes by adding their counts to those by account and day.
    fn fold(&self, shard: &mut Shard) {
        let Shard { minutes, days } = shard;
        for (_, Counted { key, counts }) in minutes.drain() {
            let id = (key.account_id, counts.day);
            if days.len() < SHARD_DAYS || days.contains_key(&id) {
                add_to(days, id, &counts);
            } else {
                self.warn_of_overflow();
            }
        }
    }

    /// Returns the report to send now: the last one if it was not answered, and otherwise one of the counts
    /// since. `None` if there is nothing to report.
    pub(super) fn next_report(&self) -> Option<ReportUsageRequest> {
        let mut last = self.last_report.lock();
        if last.unanswered.is_none() {
            let requests = self.take_rows();
            let (refusals, refusal_counts) = self.refusals.drain();
            if requests.is_empty() && refusal_counts.is_empty() {
                return None;
            }
            last.number += 1;
            let (reporter, number) = (self.reporter.clone(), last.number);
            last.unanswered =
                Some(ReportUsageRequest { reporter, number, requests, refusals, refusal_counts });
        }
        last.unanswered.clone()
    }

    /// Drops the report, which the core has answered.
    pub(super) fn answered(&self, number: i64) {
        let mut last = self.last_report.lock();
        if last.number == number {
            last.unanswered = None;
            self.overflowed.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the counts of the account.
    pub(super) fn unreported(&self, account_id: i64) -> Unreported {
        let last = self.last_report.lock();
        let rows = last.unanswered.iter().flat_map(|report| &report.requests);
        let sent = rows.filter(|row| row.account_id == account_id).map(day_of);
        let shard = self.shard(account_id);
        let days = shard.days.iter().filter(|((account, _), _)| *account == account_id).map(|(_, day)| *day);
        let minutes = shard.minutes.values().filter(|counted| counted.key.account_id == account_id);
        let waiting = days.chain(minutes.map(|counted| counted.counts));
        Unreported { number: last.number, sent: sent.collect(), waiting: waiting.collect() }
    }

    /// Takes as many counts as a report may have.
    fn take_rows(&self) -> Vec<UsageRow> {
        let mut rows = HashMap::default();
        let mut without_account = self.without_account.lock();
        while rows.len() < MAX_ROWS
            && let Some((minute, counts)) = without_account.pop_first()
        {
            rows.insert((NO_ACCOUNT, Arc::from(""), minute), counts);
        }
        drop(without_account);
        for shard in &self.shards {
            let mut shard = shard.lock();
            let Shard { minutes, days } = &mut *shard;
            let room = MAX_ROWS - rows.len();
            for ((account_id, day), counts) in days.extract_if(|_, _| true).take(room) {
                add_to(&mut rows, (account_id, Arc::from(""), day * Minute::PER_DAY), &counts);
            }
            let room = MAX_ROWS - rows.len();
            for ((_, minute), Counted { key, counts }) in minutes.extract_if(|_, _| true).take(room) {
                // A key that was resolved again meanwhile occurs twice.
                add_to(&mut rows, (key.account_id, Arc::clone(&key.key_id), minute), &counts);
            }
        }
        rows.into_iter().map(row).collect()
    }

    fn shard(&self, account_id: i64) -> MutexGuard<'_, Shard> {
        // The remainder is below SHARDS.
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
        let index = self.hasher.hash_one(account_id) as usize % self.shards.len();
        self.shards[index].lock()
    }
}

/// Returns the counts of a minute before its first request.
fn none_in(minute: i64) -> UsageDay {
    UsageDay { day: Minute(minute).day().0, ..UsageDay::default() }
}

/// Counts a request by the status of its answer.
const fn count_one(counts: &mut UsageDay, status: u16) {
    let class = match status {
        429 => &mut counts.refused,
        400..=499 => &mut counts.client_errors,
        500.. => &mut counts.server_errors,
        _ => &mut counts.succeeded, // the service sends no 1xx or 3xx under /v1
    };
    *class += 1;
}

fn row(((account_id, key_id, minute), counts): ((i64, Arc<str>, i64), UsageDay)) -> UsageRow {
    let UsageDay { day: _, succeeded, client_errors, refused, server_errors, get_pet } = counts;
    let key_id = key_id.to_string();
    UsageRow { account_id, key_id, minute, succeeded, client_errors, refused, server_errors, get_pet }
}

fn day_of(row: &UsageRow) -> UsageDay {
    let UsageRow { succeeded, client_errors, refused, server_errors, get_pet, .. } = *row;
    let day = Minute(row.minute).day().0;
    UsageDay { day, succeeded, client_errors, refused, server_errors, get_pet }
}

fn add_to<K: Eq + std::hash::Hash>(all: &mut HashMap<K, UsageDay>, key: K, counts: &UsageDay) {
    add(all.entry(key).or_insert(UsageDay { day: counts.day, ..UsageDay::default() }), counts);
}

/// Adds the counts of one part of a day to those of another.
pub(super) fn add(to: &mut UsageDay, counts: &UsageDay) {
    to.succeeded += counts.succeeded;
    to.client_errors += counts.client_errors;
    to.refused += counts.refused;
    to.server_errors += counts.server_errors;
    to.get_pet += counts.get_pet;
}

#[cfg(test)]
mod tests;
