//! API keys at the edge (docs/contract.md, 5): read from the request, checked for their form, resolved by the
//! core, and cached for as long as they may be trusted.

mod bans;
mod cached_key;
mod changes;
mod core;
mod early_reads;
mod lookups;
mod metrics;
mod resolver;
mod single_flight;
#[cfg(test)]
mod testing;

use std::sync::Arc;

pub use petstore_proto::internal::v1::Plan;

pub(crate) use self::bans::LastBan;
pub(crate) use self::early_reads::{EarlyRead, EarlyReads};
pub use self::resolver::KeyResolver;
use crate::rate_limit::Quota;

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
