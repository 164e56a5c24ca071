//! Pets that were read before.

use std::time::Duration;

use moka::sync::Cache;

use crate::domain::{Pet, PetId};

/// How long a pet is kept. Nothing changes a pet; but a server that took over from a lost one may lack the
/// last of them, and a database may be restored from a copy while cores run.
const KEPT: Duration = Duration::from_mins(1);

/// The pets that were read last, up to so many. Clones share them.
///
/// That there is no such pet is never remembered: it may be added at any time. An operation that changes pets
/// has to keep what it writes here, and to see to the caches of other cores.
#[derive(Clone)]
pub(in crate::store) struct PetCache(Option<Cache<i64, Pet>>);

impl PetCache {
    /// Keeps up to so many; for 0, none.
    pub(in crate::store) fn of(pets: u32) -> Self {
        let cache = || Cache::builder().max_capacity(pets.into()).time_to_live(KEPT).build();
        Self((pets > 0).then(cache))
    }

    pub(in crate::store) fn get(&self, id: PetId) -> Option<Pet> {
        self.0.as_ref()?.get(&id.0)
    }

    pub(in crate::store) fn keep(&self, pet: &Pet) {
        if let Some(cache) = &self.0 {
            cache.insert(pet.id.0, pet.clone());
        }
    }
}
