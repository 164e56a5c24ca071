//! A sample of the refused requests, for operators who ask for the cause, and counts of all of them by minute
//! and cause. A refusal takes one short lock.

use std::{collections::HashMap, hash::Hash, mem, sync::Arc};

use parking_lot::Mutex;
use petstore_caller::client_address::ClientAddress;
use petstore_clock::UnixMillis;
use petstore_key_cache::KnownKey;
use petstore_proto::{admin::v1::RefusalCause, internal::v1 as internal};

use crate::request_id::RequestId;

/// Maximum number of refusals with a known key that are kept for one report. The first of each account and
/// cause has room before further ones.
const MAX_OF_ACCOUNTS: usize = 400;
/// Maximum number of refusals without a known key, so that a flood of them takes no room from accounts. The
/// first of each address and cause has room before further ones.
const MAX_OF_ADDRESSES: usize = 100;
/// Maximum number of refusals of one account or address and cause. A further one replaces the newest of its
/// key, which it then also stands for. The first one of a key replaces the oldest of all.
const MAX_OF_KIND: usize = 40;

/// Request that was refused.
#[derive(Clone, Debug)]
pub(crate) struct RefusedRequest {
    pub(crate) request_id: RequestId,
    pub(crate) at: UnixMillis,
    pub(crate) by: RefusedBy,
    pub(crate) who: Who,
}

/// Cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedBy {
    pub(crate) cause: RefusalCause,
    /// Limit in requests per window, if a limit was the cause.
    pub(crate) limit: Option<u64>,
    /// Beginning and end of the window or the ban, if one was the cause.
    pub(crate) period: Option<(UnixMillis, UnixMillis)>,
}

/// Client whose request was refused.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Key(Arc<KnownKey>),
    /// Client without a known key.
    Address(ClientAddress),
}

/// Refusals since the last report.
#[derive(Debug, Default)]
pub(crate) struct RefusalLedger(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    of_accounts: Sample<i64>,
    of_addresses: Sample<ClientAddress>,
    counts: HashMap<(i64, RefusalCause), i64>,
}

/// Refusals by subject and cause, each with the number of further ones that it stands for.
#[derive(Debug)]
struct Sample<S> {
    kinds: HashMap<(S, RefusalCause), Vec<(RefusedRequest, i64)>>,
    kept: usize,
}

impl RefusalLedger {
    /// Counts a refusal in that minute, and keeps it if there is room.
    pub(crate) fn note(&self, minute: i64, refusal: RefusedRequest) {
        let mut waiting = self.0.lock();
        let count = (minute, refusal.by.cause);
        // Only a long outage of the core reaches this number of minutes and causes.
        if waiting.counts.len() < 1_000 || waiting.counts.contains_key(&count) {
            *waiting.counts.entry(count).or_default() += 1;
        }
        match &refusal.who {
            Who::Key(key) => waiting.of_accounts.note(key.account_id, refusal, MAX_OF_ACCOUNTS),
            Who::Address(address) => waiting.of_addresses.note(*address, refusal, MAX_OF_ADDRESSES),
        }
    }

    /// Takes the refusals and counts to report now.
    pub(super) fn take(&self) -> (Vec<internal::Refusal>, Vec<internal::RefusalCount>) {
        let Waiting { of_accounts, of_addresses, counts } = mem::take(&mut *self.0.lock());
        let refusals = of_accounts.kinds.into_values().chain(of_addresses.kinds.into_values()).flatten();
        let counts = counts.into_iter().map(|((minute, cause), requests)| internal::RefusalCount {
            minute,
            cause: cause.into(),
            requests,
        });
        (refusals.map(|(refusal, repeats)| wire(&refusal, repeats)).collect(), counts.collect())
    }
}

impl<S> Default for Sample<S> {
    fn default() -> Self {
        Self { kinds: HashMap::new(), kept: 0 }
    }
}

impl<S: Eq + Hash> Sample<S> {
    fn note(&mut self, subject: S, refusal: RefusedRequest, max: usize) {
        let kind = (subject, refusal.by.cause);
        let kept = self.kinds.get(&kind).map_or(&[][..], Vec::as_slice);
        let newest_of_key = kept.iter().rposition(|it| it.0.key_id() == refusal.key_id());
        let has_room = kept.len() < MAX_OF_KIND;
        let mut repeats = 0;
        if has_room && self.kept < max {
            self.kept += 1;
        } else if let Some((kept, newest)) = self.kinds.get_mut(&kind).zip(newest_of_key) {
            repeats = kept.remove(newest).1 + 1;
        } else if !(has_room && self.evict()) {
            let Some(kept) = self.kinds.get_mut(&kind) else { return };
            drop_oldest(kept);
        }
        self.kinds.entry(kind).or_default().push((refusal, repeats));
    }

    /// Drops the oldest refusal of the account and cause that has most of them. Returns `false` if each has
    /// only one.
    fn evict(&mut self) -> bool {
        let most = self.kinds.values_mut().max_by_key(|kept| kept.len());
        most.filter(|kept| kept.len() > 1).map(drop_oldest).is_some()
    }
}

/// Drops the oldest refusal, and counts it with the next one of its key.
fn drop_oldest(kept: &mut Vec<(RefusedRequest, i64)>) {
    let (oldest, requests) = kept.remove(0);
    if let Some((_, repeats)) = kept.iter_mut().find(|it| it.0.key_id() == oldest.key_id()) {
        *repeats += requests + 1;
    }
}

impl RefusedRequest {
    fn key_id(&self) -> Option<&str> {
        match &self.who {
            Who::Key(key) => Some(&key.key_id),
            Who::Address(_) => None,
        }
    }
}

fn wire(refusal: &RefusedRequest, repeats: i64) -> internal::Refusal {
    let RefusedBy { cause, limit, period } = refusal.by;
    let account_id = match &refusal.who {
        Who::Key(key) => key.account_id,
        Who::Address(_) => 0,
    };
    internal::Refusal {
        request_id: refusal.request_id.as_str().to_owned(),
        refused_at_ms: refusal.at.as_i64(),
        cause: cause.into(),
        account_id,
        key_id: refusal.key_id().unwrap_or_default().to_owned(),
        limit: limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or_default(),
        since_ms: period.map(|(since, _)| since.as_i64()),
        until_ms: period.map(|(_, until)| until.as_i64()),
        repeats,
    }
}

#[cfg(test)]
pub(super) mod tests;
