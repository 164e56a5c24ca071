//! Refused requests, for operators who ask why: some of them one by one, all of them counted by cause. A
//! refused request pays for one short lock.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use petstore_clock::UnixMillis;
use petstore_proto::{admin::v1::RefusalCause, internal::v1 as internal};

use crate::{client_address::ClientAddress, keys::KnownKey, request_id::RequestId};

/// The most refusals of one report.
const MOST: usize = 500;
/// How many of them requests without a known key may be, so that a flood of those takes no place from
/// accounts.
const MOST_ANONYMOUS: usize = 100;
/// How many an account, or an address without a known key, may have in one report.
const MOST_OF_SUBJECT: usize = 40;
/// How many it may have with one key for one cause; more are counted with the last one.
const MOST_OF_KIND: u8 = 20;
/// The most minutes and causes of one report: only a long outage of the core fills it, and then nothing on
/// top is counted.
const MOST_COUNTS: usize = 1_000;

/// A request that was refused.
#[derive(Clone, Debug)]
pub(crate) struct RefusedRequest {
    pub(crate) request_id: RequestId,
    pub(crate) at: UnixMillis,
    pub(crate) by: RefusedBy,
    pub(crate) who: Who,
}

/// What refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedBy {
    pub(crate) cause: RefusalCause,
    /// The limit in requests per window, if it was one.
    pub(crate) limit: Option<u64>,
    /// When the window or the ban began and when it ends, if it was one.
    pub(crate) period: Option<(UnixMillis, UnixMillis)>,
}

/// Who was refused.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Key(Arc<KnownKey>),
    /// A request without a key that is known.
    Address(ClientAddress),
}

/// Whose places in a report they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Account(i64),
    Address(ClientAddress),
}

/// What has been refused since the last report.
#[derive(Debug, Default)]
pub(crate) struct RefusalLedger(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    refusals: Vec<(RefusedRequest, i64)>,
    /// Of each kind how many there are, and where the last one is. Keys are told apart by where they are in
    /// memory: each is held here.
    kinds: HashMap<(Subject, usize, RefusalCause), (u8, usize)>,
    subjects: HashMap<Subject, usize>,
    anonymous: usize,
    counts: HashMap<(i64, RefusalCause), i64>,
}

impl RefusalLedger {
    /// Takes note of a refusal in that minute.
    pub(crate) fn note(&self, minute: i64, refusal: RefusedRequest) {
        let mut waiting = self.lock();
        let count = (minute, refusal.by.cause);
        if waiting.counts.len() < MOST_COUNTS || waiting.counts.contains_key(&count) {
            *waiting.counts.entry(count).or_default() += 1;
        }
        waiting.note(refusal);
    }

    /// What is to be reported now.
    pub(super) fn take(&self) -> (Vec<internal::Refusal>, Vec<internal::RefusalCount>) {
        let Waiting { refusals, counts, .. } = mem::take(&mut *self.lock());
        let counts = counts.into_iter().map(|((minute, cause), requests)| internal::RefusalCount {
            minute,
            cause: cause.into(),
            requests,
        });
        (refusals.into_iter().map(|(refusal, repeats)| wire(&refusal, repeats)).collect(), counts.collect())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // never held over an await
    }
}

impl Waiting {
    fn note(&mut self, refusal: RefusedRequest) {
        let (subject, key) = match &refusal.who {
            Who::Key(key) => (Subject::Account(key.account_id), Arc::as_ptr(key).addr()),
            Who::Address(address) => (Subject::Address(*address), 0),
        };
        let kind = (subject, key, refusal.by.cause);
        let known = self.kinds.get(&kind).copied();
        let has_room = known.is_none_or(|(count, _)| count < MOST_OF_KIND)
            && self.refusals.len() < MOST
            && self.subjects.get(&subject).is_none_or(|count| *count < MOST_OF_SUBJECT)
            && (matches!(subject, Subject::Account(_)) || self.anonymous < MOST_ANONYMOUS);
        if has_room {
            self.kinds.insert(kind, (known.map_or(1, |(count, _)| count + 1), self.refusals.len()));
            *self.subjects.entry(subject).or_default() += 1;
            self.anonymous += usize::from(matches!(subject, Subject::Address(_)));
            self.refusals.push((refusal, 0));
        } else if let Some((_, repeats)) = known.and_then(|(_, last)| self.refusals.get_mut(last)) {
            *repeats += 1;
        }
    }
}

fn wire(refusal: &RefusedRequest, repeats: i64) -> internal::Refusal {
    let millis = |moment: UnixMillis| i64::try_from(moment.0).unwrap_or(i64::MAX);
    let RefusedBy { cause, limit, period } = refusal.by;
    let (account_id, key_id) = match &refusal.who {
        Who::Key(key) => (key.account_id, key.key_id.to_string()),
        Who::Address(_) => (0, String::new()),
    };
    internal::Refusal {
        request_id: refusal.request_id.as_str().to_owned(),
        refused_at_ms: millis(refusal.at),
        cause: cause.into(),
        account_id,
        key_id,
        limit: limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or_default(),
        since_ms: period.map(|(since, _)| millis(since)),
        until_ms: period.map(|(_, until)| millis(until)),
        repeats,
    }
}

#[cfg(test)]
pub(super) mod tests;
