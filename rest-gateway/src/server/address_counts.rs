//! How many connections each address has open.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::client_address::ClientAddress;

/// Counts connections per address. Clones share the counts; an address without connections takes no memory.
#[derive(Clone, Debug)]
pub(super) struct AddressCounts {
    open: Arc<Mutex<HashMap<ClientAddress, usize>>>,
    max: usize,
}

/// Stands for one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    counts: AddressCounts,
    address: ClientAddress,
}

impl AddressCounts {
    pub(super) fn new(max: usize) -> Self {
        Self { open: Arc::default(), max }
    }

    /// Counts one more connection, or `None` if the address has its most.
    pub(super) fn enter(&self, peer: IpAddr) -> Option<Entry> {
        let address = ClientAddress::from(peer);
        let mut open = self.lock();
        let count = open.get(&address).copied().unwrap_or_default();
        if count >= self.max {
            return None;
        }
        open.insert(address, count + 1);
        Some(Entry { counts: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientAddress, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner) // no code panics while it holds the lock
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.counts.lock();
        match open.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_most_and_gets_a_place_back_when_a_connection_closes() {
        let counts = AddressCounts::new(2);
        let enter = |peer: &str| counts.enter(peer.parse().unwrap());
        let (one, two) = (enter("192.0.2.1").unwrap(), enter("192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        drop(one);
        let three = enter("192.0.2.1").unwrap();
        assert!(enter("::ffff:192.0.2.1").is_none());
        drop((two, three));
        assert!(counts.lock().is_empty());
    }
}
