//! API keys at the edge (docs/contract.md, 5): read from the request, checked for their form, resolved by the
//! core, and cached for as long as they may be trusted.

mod bans;
mod cached_key;
mod changes;
mod core;
mod lookups;
mod resolver;
#[cfg(test)]
mod testing;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

pub use petstore_proto::internal::v1::Plan;
use petstore_rate_limit::{Decision, Outcome, Quota};

pub(crate) use self::bans::LastBan;
pub use self::resolver::KeyResolver;

/// Returns the name of the plan; `None` if it is of a newer core.
pub(crate) const fn plan_word(plan: Plan) -> Option<&'static str> {
    match plan {
        Plan::Free => Some("free"),
        Plan::Pro => Some("pro"),
        Plan::Business => Some("business"),
        Plan::Enterprise => Some("enterprise"),
        Plan::Unspecified => None,
    }
}

/// API key that may be used now.
#[derive(Debug)]
pub struct KnownKey {
    /// Identifier of the key; not secret.
    pub key_id: Arc<str>,
    /// Account that the key belongs to.
    pub account_id: i64,
    /// Plan of the account.
    pub plan: Plan,
    /// Request quota of the account.
    pub quota: Quota,
    /// Last ban of the key that the core knows of.
    last_ban: Option<LastBan>,
    /// Reads of the account that need not wait for the limiter.
    pub(crate) early_reads: Arc<EarlyReads>,
}

impl KnownKey {
    /// Returns a key that was never banned, of an account without requests so far.
    pub(crate) fn new(key_id: Arc<str>, account_id: i64, plan: Plan, quota: Quota) -> Self {
        Self { key_id, account_id, plan, quota, last_ban: None, early_reads: Arc::default() }
    }
}

/// Equal if key, plan, limits and last ban are equal, regardless of its requests.
impl PartialEq for KnownKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.key_id, self.account_id, self.plan, self.quota, &self.last_ban)
            == (&other.key_id, other.account_id, other.plan, other.quota, &other.last_ban)
    }
}

impl Eq for KnownKey {}

/// A request without a key that can be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableKey {
    /// Reason.
    pub error: KeyError,
    /// The key, if it is known.
    pub key: Option<Arc<KnownKey>>,
}

impl From<KeyError> for UnusableKey {
    fn from(error: KeyError) -> Self {
        Self { error, key: None }
    }
}

/// Reason why a request has no key that can be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The request has no key.
    Missing,
    /// The key does not exist, or is malformed.
    Unknown,
    /// Its owner or an operator revoked it.
    Revoked,
    /// Its expiry has passed.
    Expired,
    /// Its account is suspended, for this reason if it is not empty.
    AccountSuspended(Arc<str>),
    /// The core cannot be reached, and the key is not cached, or stale.
    CoreAway,
    /// Too many keys wait to be looked up.
    Overloaded,
}

/// The early reads of an account: no more than it was last seen to have requests left.
#[derive(Debug, Default)]
pub(crate) struct EarlyReads {
    /// Requests that the account had left after its last decision, up to 128: an account never has more reads
    /// in flight, and while more are left, no request changes this.
    left: AtomicU64,
    /// Early reads that the limiter has not decided on.
    undecided: AtomicU64,
}

/// An early read, until the limiter has decided on it.
#[derive(Debug)]
pub(crate) struct EarlyRead(Arc<EarlyReads>);

impl EarlyReads {
    /// Begins an early read. Returns `None` if the read has to wait for the limiter.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<EarlyRead> {
        let left = self.left.load(Ordering::Relaxed);
        let begun = |undecided: u64| (undecided < left).then_some(undecided + 1);
        let begun = self.undecided.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begun);
        begun.is_ok().then(|| EarlyRead(Arc::clone(self)))
    }

    /// Records the quota that a decision left to the account. `None` is a refusal of another cause, such as a
    /// ban.
    pub(crate) fn note_decision(&self, decision: Option<&Decision>) {
        let left = match decision {
            Some(Decision { outcome: Outcome::Admitted, minute, day, .. }) => {
                minute.remaining.min(day.remaining).min(128)
            }
            _ => 0,
        };
        // Reads first: most requests of a large account need no write, which would invalidate the caches of
        // other threads.
        if left != self.left.load(Ordering::Relaxed) {
            self.left.store(left, Ordering::Relaxed);
        }
    }
}

impl Drop for EarlyRead {
    fn drop(&mut self) {
        self.0.undecided.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;
    use petstore_rate_limit::{Scope, WindowView};

    use super::*;

    fn decide(reads: &EarlyReads, outcome: Outcome, minute: u64, day: u64) {
        let window = |remaining| WindowView { limit: 60, remaining, resets_at: UnixMillis(0) };
        let (minute, day, now, scope) = (window(minute), window(day), UnixMillis(0), Scope::Shared);
        let (is_strike, struck_out_at, ban) = (false, None, None);
        let decision = Decision { outcome, is_strike, struck_out_at, now, minute, day, ban, scope };
        reads.note_decision(Some(&decision));
    }

    #[test]
    fn the_last_decision_bounds_the_number_of_early_reads() {
        let reads = Arc::<EarlyReads>::default();
        let begun = || std::iter::from_fn(|| reads.begin()).collect::<Vec<_>>().len();
        assert_eq!(begun(), 0, "nothing is known yet");
        for (outcome, minute, day, left) in [
            (Outcome::Admitted, 1, 9, 1),
            (Outcome::Admitted, 0, 9, 0),
            (Outcome::Admitted, 7, 5, 5),
            (Outcome::RateLimited, 7, 5, 0),
            (Outcome::Admitted, 1_000, 5_000, 128),
        ] {
            decide(&reads, outcome, minute, day);
            assert_eq!(begun(), usize::try_from(left).unwrap(), "{outcome:?} {minute} {day}");
        }
    }

    #[test]
    fn a_read_is_early_until_it_is_decided() {
        let reads = Arc::<EarlyReads>::default();
        decide(&reads, Outcome::Admitted, 2, 2);
        let first = reads.begin().unwrap();
        let _second = reads.begin().unwrap();
        assert!(reads.begin().is_none());
        drop(first);
        assert!(reads.begin().is_some());
        reads.note_decision(None);
        assert!(reads.begin().is_none());
    }
}
