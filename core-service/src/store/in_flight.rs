//! Creations with an idempotency key that are in flight.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};

use crate::domain::IdempotencyKey;

/// Keys of the creations that this process is working on: at most as many as concurrent calls.
#[derive(Clone, Default)]
pub(super) struct CreationsInFlight(Arc<Mutex<HashSet<IdempotencyKey>>>);

/// Key of a creation in flight, which ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct InFlightKey(Arc<Entry>);

struct Entry {
    in_flight: CreationsInFlight,
    key: IdempotencyKey,
}

impl InFlightKey {
    /// Returns the digest, which is stored instead of the key's text: a client may have put a secret into it.
    pub(super) fn digest(&self) -> Vec<u8> {
        Sha256::digest(self.0.key.as_str()).to_vec()
    }
}

impl CreationsInFlight {
    /// Registers a creation. Returns `None` if one with that key is in flight already.
    pub(super) fn begin(&self, key: &IdempotencyKey) -> Option<InFlightKey> {
        self.keys()
            .insert(key.clone())
            .then(|| InFlightKey(Arc::new(Entry { in_flight: self.clone(), key: key.clone() })))
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<IdempotencyKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // no panic leaves the set inconsistent
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.in_flight.keys().remove(&self.key);
    }
}
