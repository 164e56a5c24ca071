//! When keys were last used, until the core is told.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::KeyUse;

use super::cached_key::CachedKey;

/// The most entries that wait to be reported; more are not noted. Twice what the resolver remembers.
const MAX_WAITING: usize = 100_000;

/// The keys used since the last report.
#[derive(Debug, Default)]
pub(super) struct LastUsed(Mutex<Vec<Arc<CachedKey>>>);

impl LastUsed {
    /// Notes a use. Only a key's first one since the last report takes the lock.
    pub(super) fn note(&self, entry: &Arc<CachedKey>, now: UnixMillis) {
        if entry.note_use(now) {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.len() < MAX_WAITING {
                waiting.push(Arc::clone(entry));
            }
        }
    }

    /// What there is to report, each key once.
    pub(super) fn take(&self) -> Vec<KeyUse> {
        let waiting = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // A key that was resolved anew meanwhile has two entries.
        let mut uses = HashMap::with_capacity(waiting.len());
        for entry in &waiting {
            let last_use: &mut u64 = uses.entry(&*entry.key.key_id).or_default();
            *last_use = entry.take_use().0.max(*last_use);
        }
        let report = |(key_id, at): (&str, u64)| KeyUse {
            key_id: key_id.to_owned(),
            last_used_at_ms: i64::try_from(at).unwrap_or(i64::MAX),
        };
        uses.into_iter().map(report).collect()
    }
}
