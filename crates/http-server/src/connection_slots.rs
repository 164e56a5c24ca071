//! Connection slots: limits on the number of open connections, in total and from one address.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use petstore_client_address::{ClientAddress, TrustedProxies};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::timeout,
};

use super::activity::Activity;

/// Slots for connections, over all ports that share them. Clones share the slots.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    all: Arc<Semaphore>,
    of_one_address: AddressCounts,
    exempt: Arc<TrustedProxies>,
    /// Open connections, the oldest first, if their slots can be reclaimed.
    reclaimable: Option<Arc<OpenConnections>>,
}

type OpenConnections = Mutex<VecDeque<(AbortHandle, Activity)>>;

/// Slot of a connection, in total and among those of its address, until it is dropped.
pub(super) type ConnectionSlot = (Option<OwnedSemaphorePermit>, Option<CountedConnection>);

impl ConnectionSlots {
    /// Returns slots for `at_once` connections, of which `of_one_address` may be of one address (IPv6: one
    /// /64). Beyond the first bound connections wait until one closes. Beyond the second they are closed.
    pub fn new(at_once: usize, of_one_address: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))),
            of_one_address: AddressCounts::new(of_one_address),
            exempt: Arc::default(),
            reclaimable: None,
        }
    }

    /// Closes the oldest connection that waits for its client whenever the last slot is taken, so that slow
    /// clients do not keep others out.
    pub fn reclaiming(self) -> Self {
        Self { reclaimable: Some(Arc::default()), ..self }
    }

    /// Lets these proxies have as many connections as there are slots: each carries many clients.
    pub fn exempting(self, proxies: TrustedProxies) -> Self {
        Self { exempt: Arc::new(proxies), ..self }
    }

    /// Returns `true` if the address is of such a proxy.
    pub(super) fn exempts(&self, peer: IpAddr) -> bool {
        self.exempt.trusts(peer)
    }

    /// Waits for a free slot.
    pub(super) async fn free(&self) -> Option<OwnedSemaphorePermit> {
        let free = || Arc::clone(&self.all).acquire_owned(); // the semaphore is never closed
        if self.reclaimable.is_none() {
            return free().await.ok();
        }
        loop {
            if let Ok(free) = Arc::clone(&self.all).try_acquire_owned() {
                return Some(free);
            }
            self.reclaim();
            // A connection may wait for its client later.
            if let Ok(free) = timeout(Duration::from_millis(50), free()).await {
                return free.ok();
            }
        }
    }

    /// Adds an open connection to those whose slots can be reclaimed.
    pub(super) fn opened(&self, task: AbortHandle, activity: Activity) {
        if let Some(reclaimable) = &self.reclaimable {
            let mut open = reclaimable.lock();
            open.retain(|(task, _)| !task.is_finished());
            open.push_back((task, activity));
        }
    }

    /// Closes the oldest connection that waits for its client.
    fn reclaim(&self) {
        let Some(reclaimable) = &self.reclaimable else { return };
        let mut open = reclaimable.lock();
        open.retain(|(task, _)| !task.is_finished());
        if let Some(at) = open.iter().position(|(_, activity)| !activity.waits_for_app())
            && let Some((task, _)) = open.remove(at)
        {
            task.abort();
        }
    }

    /// Assigns a free slot to a connection from this address. Returns `None` if the address has its maximum.
    pub(super) fn take(&self, free: Option<OwnedSemaphorePermit>, peer: IpAddr) -> Option<ConnectionSlot> {
        let entry = if self.exempts(peer) { None } else { Some(self.of_one_address.enter(peer)?) };
        Some((free, entry))
    }
}

/// Number of connections per address. Clones share the counts. An address without connections takes no
/// memory.
#[derive(Clone, Debug)]
struct AddressCounts {
    open: Arc<Mutex<HashMap<ClientAddress, usize>>>,
    max: usize,
}

/// One connection in the counts, until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    counts: AddressCounts,
    address: ClientAddress,
}

impl AddressCounts {
    fn new(max: usize) -> Self {
        Self { open: Arc::default(), max }
    }

    /// Counts one more connection. Returns `None` if the address has its maximum.
    fn enter(&self, peer: IpAddr) -> Option<CountedConnection> {
        let address = ClientAddress::from(peer);
        let mut open = self.open.lock();
        let count = open.get(&address).copied().unwrap_or_default();
        if count >= self.max {
            return None;
        }
        open.insert(address, count + 1);
        Some(CountedConnection { counts: self.clone(), address })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.counts.open.lock();
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
    fn a_closed_connection_frees_a_slot_of_its_address() {
        let counts = AddressCounts::new(2);
        let enter = |peer: &str| counts.enter(peer.parse().unwrap());
        let (one, two) = (enter("192.0.2.1").unwrap(), enter("192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        drop(one);
        let three = enter("192.0.2.1").unwrap();
        assert!(enter("::ffff:192.0.2.1").is_none());
        drop((two, three));
        assert!(counts.open.lock().is_empty());
    }

    #[tokio::test]
    async fn a_trusted_proxy_may_have_all_slots() {
        let proxies = TrustedProxies::new(vec!["192.0.2.1".parse().unwrap()]);
        let slots = ConnectionSlots::new(3, 1).exempting(proxies);
        let mut taken = Vec::new();
        for _ in 0..3 {
            let free = slots.free().await;
            taken.push(slots.take(free, "192.0.2.1".parse().unwrap()).unwrap());
        }
        taken.truncate(1);
        let of_others = ["192.0.2.2", "192.0.2.2"].map(|peer| slots.take(None, peer.parse().unwrap()));
        assert!(matches!(of_others, [Some(_), None]), "{of_others:?}");
    }
}
