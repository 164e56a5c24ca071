//! Connection slots: limits on the number of open connections, in total and from one address.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use petstore_caller::client_address::{ClientAddress, TrustedProxies};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::ConnectionMetrics;

/// Time for which a connection keeps its slot even if connections of other addresses wait for it.
const RECLAIM_AFTER: Duration = Duration::from_millis(250);
/// Time after which a stranger gives way before any known client.
const TIME_TO_BE_KNOWN: Duration = Duration::from_secs(5);
/// Bytes of responses that may wait for clients, over all connections.
const MAX_UNREAD: usize = 64 * 1024 * 1024;

/// Slots for connections, over all ports that share them. Clones share the slots.
#[derive(Clone)]
pub struct ConnectionSlots {
    at_once: usize,
    of_one_address: usize,
    all: Arc<Semaphore>,
    exempt: Arc<TrustedProxies>,
    open: Arc<Mutex<OpenConnections>>,
    unread: Arc<AtomicUsize>,
    /// Metrics of these connections.
    pub metrics: ConnectionMetrics,
}

/// Open connections, the oldest first.
#[derive(Default)]
struct OpenConnections {
    opened: u64,
    by_age: BTreeMap<u64, Arc<OpenConnection>>,
    /// Number of connections per address. One without connections takes no memory.
    per_address: HashMap<ClientAddress, usize>,
}

/// An open connection, with all that decides whether it gives way.
pub(super) struct OpenConnection {
    slots: ConnectionSlots,
    opened_at: Instant,
    /// Number of requests that the app works on. HTTP/1.1: 0 while it waits for the request's body.
    pub(super) waiting_for_app: AtomicU32,
    /// Address among whose connections this one counts, once it does.
    address: OnceLock<ClientAddress>,
    /// Time of the last request of a client that the app knows; `None` for a stranger.
    pub(super) known_since: Mutex<Option<Instant>>,
    /// Bytes of responses that wait for the client; `None` if there were too many.
    unread: Mutex<Option<(usize, Instant)>>,
    /// Task that serves it, once it exists.
    pub(super) task: OnceLock<AbortHandle>,
}

/// Slot of a connection, in total and among those of its address, until it is dropped.
pub(super) struct ConnectionSlot {
    pub(super) connection: Arc<OpenConnection>,
    number: u64,
    _free: Option<OwnedSemaphorePermit>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let OpenConnection { slots, address, .. } = &*self.connection;
        let mut open = slots.open.lock();
        open.by_age.remove(&self.number);
        if let Some(Entry::Occupied(mut count)) = address.get().map(|it| open.per_address.entry(*it)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Bytes of a response that wait for their client, until they are dropped.
pub(super) struct UnreadBytes {
    connection: Arc<OpenConnection>,
    pub(super) bytes: usize,
}

impl UnreadBytes {
    /// Counts the bytes. If that makes too many, a connection is closed, possibly this one.
    pub(super) fn new(connection: &Arc<OpenConnection>, bytes: usize) -> Self {
        let is_too_much = connection.unread.lock().as_mut().is_some_and(|(unread, since)| {
            if *unread == 0 {
                *since = Instant::now();
            }
            *unread += bytes;
            connection.slots.unread.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_UNREAD
        });
        if is_too_much {
            connection.slots.close_largest();
        }
        Self { connection: Arc::clone(connection), bytes }
    }
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        if let Some((unread, since)) = &mut *self.connection.unread.lock() {
            *unread -= self.bytes;
            *since = Instant::now();
            self.connection.slots.unread.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl ConnectionSlots {
    /// Returns slots for `at_once` connections, of which `of_one_address` may be of one address (IPv6: one
    /// /64). Beyond either bound a connection takes the place of one that waits for its client, if there is
    /// one. Otherwise it waits beyond the first bound, and is closed beyond the second.
    ///
    /// The oldest connection of a stranger gives way, to one of its own address however new it is: the last
    /// ones are those whose clients may still show a key. In total, new strangers keep an eighth, so that a
    /// client has time to become [known](crate::HttpPeer::note_known); then the known client gives way whose
    /// last request is the longest ago.
    pub fn new(at_once: usize, of_one_address: usize) -> Self {
        Self {
            at_once,
            of_one_address,
            all: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))),
            exempt: Arc::default(),
            open: Arc::default(),
            unread: Arc::default(),
            metrics: ConnectionMetrics::with_prefix(""),
        }
    }

    /// Lets these proxies have as many connections as there are slots: each carries many clients.
    pub fn exempting(self, proxies: TrustedProxies) -> Self {
        Self { exempt: Arc::new(proxies), ..self }
    }

    /// Lets the names of the counters begin with this prefix.
    pub fn measured_as(self, prefix: &str) -> Self {
        Self { metrics: ConnectionMetrics::with_prefix(prefix), ..self }
    }

    /// Returns `true` if the address is of such a proxy.
    pub(super) fn exempts(&self, peer: IpAddr) -> bool {
        self.exempt.trusts(peer)
    }

    /// Waits for a free slot, and takes that of a connection that waits for its client if there is none.
    pub(super) async fn free(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(free) = Arc::clone(&self.all).try_acquire_owned() {
                return Some(free);
            }
            self.reclaim(&mut self.open.lock(), None, Instant::now());
            // A connection may wait for its client later.
            let free = Arc::clone(&self.all).acquire_owned(); // the semaphore is never closed
            if let Ok(free) = timeout(Duration::from_millis(50), free).await {
                return free.ok();
            }
        }
    }

    /// Assigns a free slot to a connection from this peer. Returns `None` if its address has its maximum.
    pub(super) fn take(&self, free: Option<OwnedSemaphorePermit>, peer: IpAddr) -> Option<ConnectionSlot> {
        let connection = Arc::new(OpenConnection {
            slots: self.clone(),
            opened_at: Instant::now(),
            waiting_for_app: AtomicU32::new(0),
            address: OnceLock::new(),
            known_since: Mutex::default(),
            unread: Mutex::new(Some((0, Instant::now()))),
            task: OnceLock::new(),
        });
        if !self.exempts(peer) && !connection.counts_for(peer) {
            return None;
        }
        let mut open = self.open.lock();
        let number = open.opened;
        open.opened += 1;
        open.by_age.insert(number, Arc::clone(&connection));
        Some(ConnectionSlot { connection, number, _free: free })
    }

    /// Returns the number of bytes that wait for clients.
    #[cfg(test)]
    pub(super) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// Closes a connection that waits for its client. If an address is named, it is the oldest one of a
    /// stranger from there. Returns `false` if there is none.
    fn reclaim(&self, open: &mut OpenConnections, address: Option<ClientAddress>, now: Instant) -> bool {
        let is_stranger = |it: &OpenConnection| it.known_since.lock().is_none();
        let kept_for = if address.is_none() { RECLAIM_AFTER } else { Duration::ZERO };
        let waiting = || {
            let is_of_it = |it: &OpenConnection| address.is_none() || it.address.get() == address.as_ref();
            open.by_age.iter().filter(move |(_, it)| is_of_it(it) && it.waits_for_client(kept_for, now))
        };
        let stranger_of = |age| {
            let is_of_age = move |it: &OpenConnection| now.saturating_duration_since(it.opened_at) >= age;
            waiting().take_while(|(_, it)| is_of_age(it)).find(|(_, it)| is_stranger(it))
        };
        let known = || {
            let mut strangers = open.by_age.values().filter(|it| is_stranger(it));
            let has_room = address.is_none() && strangers.nth(self.at_once / 8).is_none();
            let known = waiting().filter(|(_, it)| !is_stranger(it));
            has_room.then(|| known.min_by_key(|(_, it)| *it.known_since.lock()))?
        };
        let found = stranger_of(TIME_TO_BE_KNOWN).or_else(known).or_else(|| stranger_of(Duration::ZERO));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        self.metrics.reclaimed.inc();
        open.close(number);
        true
    }

    /// Closes the connection with the most bytes that wait for its client, times the seconds since that took
    /// some: a client that reads does not pay for many that leave a little each.
    fn close_largest(&self) {
        let weight = |it: &OpenConnection| {
            it.unread.lock().map(|(bytes, since)| bytes as u64 * (1 + since.elapsed().as_secs()))
        };
        let mut open = self.open.lock();
        let most = open.by_age.iter().max_by_key(|(_, it)| weight(it)).map(|(number, _)| *number);
        if let Some(closed) = most.and_then(|number| open.close(number)) {
            self.metrics.reclaimed.inc();
            let given_up = closed.unread.lock().take();
            self.unread.fetch_sub(given_up.map_or(0, |(bytes, _)| bytes), Ordering::Relaxed);
        }
    }
}

impl OpenConnection {
    /// Counts the connection among those of its client's address. Returns `false` if that has its maximum,
    /// and none of them can be closed in its place.
    pub(super) fn counts_for(&self, client: IpAddr) -> bool {
        let (slots, address) = (&self.slots, ClientAddress::from(client));
        let mut open = slots.open.lock(); // to the end: otherwise connections at once would exceed the bound
        let count = open.per_address.get(&address).copied().unwrap_or_default();
        if count >= slots.of_one_address && !slots.reclaim(&mut open, Some(address), Instant::now()) {
            return false;
        }
        let _ = self.address.set(address); // it has one client
        *open.per_address.entry(address).or_default() += 1;
        true
    }

    /// Returns `true` if it is served, its client has had this time for its next request, and none is being
    /// worked on.
    fn waits_for_client(&self, time: Duration, now: Instant) -> bool {
        let since = self.known_since.lock().unwrap_or(self.opened_at);
        now.saturating_duration_since(since) >= time
            && self.waiting_for_app.load(Ordering::Relaxed) == 0
            && self.task.get().is_some()
    }
}

impl OpenConnections {
    /// Closes a connection at once, and returns it.
    fn close(&mut self, number: u64) -> Option<Arc<OpenConnection>> {
        self.by_age.get(&number)?.task.get()?.abort();
        self.by_age.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Barrier, thread};

    use tokio::task::JoinHandle;

    use super::*;

    fn take(slots: &ConnectionSlots, peer: &str) -> Option<ConnectionSlot> {
        slots.take(None, peer.parse().unwrap())
    }

    #[test]
    fn a_closed_connection_frees_a_slot_of_its_address() {
        let slots = ConnectionSlots::new(9, 2);
        let (one, two) = (take(&slots, "192.0.2.1").unwrap(), take(&slots, "192.0.2.1").unwrap());
        assert!(take(&slots, "192.0.2.1").is_none());
        assert!(take(&slots, "192.0.2.2").is_some());
        drop(one);
        let three = take(&slots, "192.0.2.1").unwrap();
        assert!(take(&slots, "::ffff:192.0.2.1").is_none());
        drop((two, three));
        assert!(slots.open.lock().per_address.is_empty());
    }

    #[test]
    fn connections_at_once_stay_within_the_bound_of_their_address() {
        for _ in 0..200 {
            let (slots, begin) = (ConnectionSlots::new(99, 2), Barrier::new(4));
            let taken: Vec<_> = thread::scope(|scope| {
                let take = || {
                    begin.wait();
                    take(&slots, "192.0.2.1")
                };
                let taking = [(); 4].map(|()| scope.spawn(take));
                taking.into_iter().filter_map(|taken| taken.join().unwrap()).collect()
            });
            assert_eq!(taken.len(), 2);
        }
    }

    /// Opens connections with tasks that never end, each of a known client or a stranger.
    fn open(slots: &ConnectionSlots, are_known: &[bool]) -> Vec<(ConnectionSlot, JoinHandle<()>)> {
        let open = are_known.iter().map(|is_known| {
            let (slot, task) = (take(slots, "192.0.2.1").unwrap(), tokio::spawn(pending()));
            slot.connection.task.set(task.abort_handle()).unwrap();
            if *is_known {
                *slot.connection.known_since.lock() = Some(Instant::now());
            }
            (slot, task)
        });
        open.collect()
    }

    #[tokio::test]
    async fn strangers_give_way_before_known_clients_except_for_an_eighth() {
        let slots = ConnectionSlots::new(16, 99);
        let open = open(&slots, &[true, false, true, false, false, true]);
        let reclaim = |now| slots.reclaim(&mut slots.open.lock(), None, now);
        assert!(!reclaim(Instant::now()), "they have just been opened");
        *open[0].0.connection.known_since.lock() = Some(Instant::now()); // it has sent the last request
        open[4].0.connection.waiting_for_app.store(1, Ordering::Relaxed);
        let mut closed = Vec::new();
        while reclaim(Instant::now() + RECLAIM_AFTER) {
            let is_open = |at: &usize| slots.open.lock().by_age.contains_key(&open[*at].0.number);
            closed.extend((0..6).find(|at| !is_open(at) && !closed.contains(at)));
        }
        assert_eq!(closed, [1, 2, 5, 0, 3]);
    }

    #[tokio::test]
    async fn the_oldest_stranger_of_an_address_gives_way_to_a_new_connection_from_there_at_once() {
        let slots = ConnectionSlots::new(99, 3);
        let open = open(&slots, &[true, false, false]);
        let is_open = || [0, 1, 2].map(|at| slots.open.lock().by_age.contains_key(&open[at].0.number));
        let _new = take(&slots, "192.0.2.1").unwrap();
        assert_eq!(is_open(), [true, false, true]);
        open[2].0.connection.waiting_for_app.store(1, Ordering::Relaxed);
        assert!(take(&slots, "192.0.2.1").is_none(), "the others are known, at work, or not served yet");
        assert_eq!(is_open(), [true, false, true]);
    }

    #[tokio::test]
    async fn the_connection_with_the_most_unread_bytes_gives_way() {
        let slots = ConnectionSlots::new(8, 99);
        let open = open(&slots, &[true, true, false]);
        let mut unread = Vec::new();
        for (connection, bytes, closed) in [
            (0, MAX_UNREAD / 2, None),
            (1, MAX_UNREAD / 2, None),
            (2, 9, Some(1)),
            (2, MAX_UNREAD / 2, Some(2)),
        ] {
            unread.push(UnreadBytes::new(&open[connection].0.connection, bytes));
            let is_open = |number: &u64| slots.open.lock().by_age.contains_key(number);
            let now: Vec<_> = (0..3).filter(|at| !is_open(&open[*at].0.number)).collect();
            assert_eq!(now.last().copied(), closed, "{connection} {bytes}");
        }
        assert_eq!(slots.unread(), MAX_UNREAD / 2);
        drop(unread);
        assert_eq!(slots.unread(), 0);
    }
}
