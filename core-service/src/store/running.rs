//! Which creations are under way.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};

use crate::domain::RequestId;

/// The names of the creations that this process works on. No more than it takes on calls at once.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<Mutex<HashSet<RequestId>>>);

/// One creation under way; over when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Run(Arc<Named>);

struct Named {
    running: Running,
    id: RequestId,
}

impl Run {
    /// As which its name is kept: never the text, for a client may have put a secret into it.
    pub(super) fn digest(&self) -> Vec<u8> {
        Sha256::digest(self.0.id.as_str()).to_vec()
    }
}

impl Running {
    /// `None` if one of that name is under way.
    pub(super) fn begin(&self, id: &RequestId) -> Option<Run> {
        self.names()
            .insert(id.clone())
            .then(|| Run(Arc::new(Named { running: self.clone(), id: id.clone() })))
    }

    fn names(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // no panic leaves a set half changed
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.running.names().remove(&self.id);
    }
}
