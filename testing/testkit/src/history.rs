//! Record of what the clients of a test sent and were answered, and the rules that it must keep.
//!
//! Each client writes its requests to a [`History`], and [`Conditions::check`] judges all of them, and the
//! pets that the store keeps at the end, by one list of [`Rule`]s. [`load`](crate::load) has clients that
//! record.
//!
//! **Pets.** Every request to add a pet has a unique name. So a name that is stored twice was added twice, by
//! the retry of a client (with its `Idempotency-Key`), of a gateway or of the core.
//!
//! **Limits.** The records are grouped into windows. A window has the records of one account with one limit
//! and one reset. A gateway that counts by itself (`X-RateLimit-Scope: node`) has separate windows. Only
//! answers whose order is certain are compared: one had returned before the other was sent. This holds if the
//! accounts' plans do not change, Redis loses nothing, and the window under test is the one that is shown:
//! give the accounts a day limit that is never reached.

mod record;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

pub(crate) use self::record::start_time;
use self::{record::nanos, rules::http_status};
pub use self::{
    record::{NoAnswer, Record, latency_at},
    rules::Rule,
};
use crate::grpc;

/// Time within which a busy machine answers every request: the 5 s of the contract, and as much again.
pub const BUSY_DEADLINE: Duration = Duration::from_secs(10);

/// Pet that the store keeps, or that a request adds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredPet {
    /// Identifier of the pet; 0 if no answer gave it.
    pub id: i64,
    /// Name of the pet.
    pub name: String,
    /// Category of the pet.
    pub category_id: i64,
}

/// Returns every pet that the core at this address lists.
pub async fn all_pets(address: SocketAddr) -> Vec<StoredPet> {
    let mut pets = grpc::pet_store(address).await;
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = grpc::pb::ListPetsRequest { page_size: 100, page_token, status: 0 };
        let page = pets.list_pets(request).await.expect("a page").into_inner();
        let stored = page.pets.into_iter();
        all.extend(stored.map(|pet| StoredPet { id: pet.id, name: pet.name, category_id: pet.category_id }));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

/// Requests of all clients of a test. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Vec<Record>>>);

impl History {
    /// Adds a request.
    pub fn add(&self, record: Record) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    /// Returns the requests, by time of sending.
    pub fn records(&self) -> Vec<Record> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        records.sort_by_key(|record| record.inv_ns);
        records
    }

    /// Returns the number of pets that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().flat_map(acknowledged).map(|pet| &pet.name).collect::<BTreeSet<_>>().len()
    }
}

/// Conditions under which the requests of a history were made. The default judges what needs none of them.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Every pet that the store keeps at the end. Without it, no pet is judged.
    pub stored: Option<Vec<StoredPet>>,
    /// Limit of each account in the window under test. Of other accounts, the limit shown is believed.
    pub limits: BTreeMap<usize, u64>,
    /// Number of gateways by which a limit is divided while each counts by itself (`--gateways`).
    pub gateways: u64,
    /// `true` if a gateway counts in its memory, so that its windows end with its process.
    pub counts_in_memory: bool,
    /// Time within which every request must be answered. Without it, neither late nor missing answers are
    /// judged.
    pub deadline: Option<Duration>,
    /// Times in which a gateway's process could not answer.
    pub interruptions: Vec<Interruption>,
}

impl Conditions {
    /// Checks the records, in any order.
    pub fn check(&self, records: &[Record]) -> Report {
        rules::check(self, records)
    }
}

/// Checks the records, in any order, by the rules that need no conditions.
pub fn check(records: &[Record]) -> Report {
    Conditions::default().check(records)
}

/// Time in which a gateway's process could not answer.
#[derive(Clone, Copy, Debug)]
pub struct Interruption {
    gateway: usize,
    kind: InterruptionKind,
    from_ns: u64,
    until_ns: u64,
}

/// Kind of an [`Interruption`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptionKind {
    /// SIGSTOP, until SIGCONT: answers arrive that much later.
    Paused,
    /// SIGTERM, until its successor is ready: requests may not be accepted, and accepted ones are answered.
    Stopped,
    /// SIGKILL, until its successor is ready: requests may neither be accepted nor answered.
    Killed,
}

impl Interruption {
    /// Creates the interruption of this process of a gateway from `from` until now.
    pub fn until_now(kind: InterruptionKind, gateway: usize, from: Instant) -> Self {
        Self { gateway, kind, from_ns: nanos(from), until_ns: nanos(Instant::now()) }
    }

    /// Returns the time of the request in which this interruption held it up.
    fn overlap(&self, record: &Record) -> Option<Duration> {
        let (from, until) = (self.from_ns.max(record.inv_ns), self.until_ns.min(record.ret_ns));
        (record.gateway == Some(self.gateway) && from <= until).then(|| Duration::from_nanos(until - from))
    }
}

/// Identity of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Account of the window.
    pub account: usize,
    /// End of the window, in Unix seconds.
    pub reset: u64,
    /// Limit that its answers show.
    pub limit: u64,
    /// Process of the gateway, if each counts locally.
    pub node: Option<usize>,
}

/// Number of answers in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Answers that counted.
    pub admitted: u64,
    /// Answers 429 because the window was used up.
    pub refused: u64,
}

/// Violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Rule that was violated.
    pub rule: Rule,
    /// Window, request or pet that shows it.
    pub evidence: String,
}

/// Result of checking a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counts of every window.
    pub windows: BTreeMap<Window, Count>,
    /// Number of acknowledged pets.
    pub acknowledged: usize,
    /// Number of stored pets: those that were acknowledged, and those whose answer was lost.
    pub stored: usize,
    /// Violations; empty if the promises were kept.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Returns the number of all admitted requests.
    pub fn admitted(&self) -> u64 {
        self.windows.values().map(|count| count.admitted).sum()
    }

    /// Returns `true` if this rule was violated.
    pub fn violates(&self, rule: Rule) -> bool {
        self.violations.iter().any(|violation| violation.rule == rule)
    }

    /// Fails the test with the first violations.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} admitted in {} windows, ", self.admitted(), self.windows.len())?;
        write!(f, "{} pets acknowledged, {} stored, ", self.acknowledged, self.stored)?;
        write!(f, "{} violations", self.violations.len())?;
        let first = self.violations.iter().take(8);
        first.into_iter().try_for_each(|Violation { rule, evidence }| write!(f, "\n  {rule:?}: {evidence}"))
    }
}

/// Returns the pets that the answer acknowledges.
fn acknowledged(record: &Record) -> &[StoredPet] {
    if record.status == Ok(201) { &record.adds } else { &[] }
}

#[cfg(test)]
mod tests;
