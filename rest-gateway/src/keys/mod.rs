//! API keys at the edge (docs/contract.md, 5): read from the request, judged by their form, resolved by the
//! core, and remembered for as long as that may be trusted.

mod bans;
mod cached_key;
mod changes;
mod core;
#[cfg(test)]
mod core_double;
mod fair_queue;
mod lookups;
mod metrics;
mod resolver;
mod single_flight;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub use petstore_proto::internal::v1::Plan;

pub(crate) use self::bans::LastBan;
pub use self::resolver::KeyResolver;
use crate::rate_limit::{Decision, Outcome, Quota};

/// A key that may be used now.
#[derive(Debug)]
pub struct KnownKey {
    /// The key's identifier; not secret.
    pub key_id: Arc<str>,
    /// The account that it belongs to.
    pub account_id: i64,
    /// The account's plan.
    pub plan: Plan,
    /// What the account may ask for.
    pub quota: Quota,
    /// The key's last ban, as the core told it.
    last_ban: Option<LastBan>,
    has_quota_left: AtomicBool,
}

impl KnownKey {
    /// A key with which nothing was asked for yet, and that was never banned.
    pub(crate) fn new(key_id: Arc<str>, account_id: i64, plan: Plan, quota: Quota) -> Self {
        Self { key_id, account_id, plan, quota, last_ban: None, has_quota_left: AtomicBool::new(false) }
    }

    /// Whether the last request with it left the account some of its limits: then the next will probably be
    /// admitted.
    pub(crate) fn has_quota_left(&self) -> bool {
        self.has_quota_left.load(Ordering::Relaxed)
    }

    /// Notes what became of a request with it.
    pub(crate) fn note_decision(&self, decision: &Decision) {
        let is_left = decision.outcome == Outcome::Admitted
            && decision.minute.remaining > 0
            && decision.day.remaining > 0;
        // Read first: most requests change nothing, and need not write to what other threads read.
        if is_left != self.has_quota_left() {
            self.has_quota_left.store(is_left, Ordering::Relaxed);
        }
    }
}

/// Whatever became of the last request.
impl PartialEq for KnownKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.key_id, self.account_id, self.plan, self.quota, &self.last_ban)
            == (&other.key_id, other.account_id, other.plan, other.quota, &other.last_ban)
    }
}

impl Eq for KnownKey {}

/// A well-formed key that cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableKey {
    /// Why.
    pub error: KeyError,
    /// The key, if it is known.
    pub key: Option<Arc<KnownKey>>,
}

impl From<KeyError> for UnusableKey {
    fn from(error: KeyError) -> Self {
        Self { error, key: None }
    }
}

/// Why a well-formed key cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There is no such key.
    Unknown,
    /// Its owner or an operator revoked it.
    Revoked,
    /// It had an expiry, and that has passed.
    Expired,
    /// Its account is suspended, for this reason if it is not empty.
    AccountSuspended(Arc<str>),
    /// The core cannot be asked, and what is remembered of the key may no longer be trusted.
    CoreAway,
    /// Too many keys wait to be looked up.
    Overloaded,
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;

    use super::*;
    use crate::rate_limit::{Scope, WindowView};

    #[test]
    fn the_next_request_will_probably_be_admitted_if_the_last_one_was_and_left_something() {
        let key = KnownKey::new("k".into(), 7, Plan::Free, Quota { per_minute: 60, per_day: 1_000 });
        assert!(!key.has_quota_left(), "nothing is known yet");
        let window = |remaining| WindowView { limit: 60, remaining, resets_at: UnixMillis(0) };
        for (outcome, minute, day, is_left) in [
            (Outcome::Admitted, 1, 1, true),
            (Outcome::Admitted, 0, 1, false),
            (Outcome::Admitted, 1, 1, true),
            (Outcome::Admitted, 1, 0, false),
            (Outcome::Admitted, 1, 1, true),
            (Outcome::RateLimited, 1, 1, false),
        ] {
            let (minute, day, now) = (window(minute), window(day), UnixMillis(0));
            key.note_decision(&Decision {
                outcome,
                is_strike: false,
                struck_out_at: None,
                now,
                minute,
                day,
                ban: None,
                scope: Scope::Shared,
            });
            assert_eq!(key.has_quota_left(), is_left, "{outcome:?} {minute:?} {day:?}");
        }
    }
}
