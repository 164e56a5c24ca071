//! API keys at the edge of a service: resolved by the core, and cached for as long as they may be trusted.
//!
//! # Promises
//!
//! - **Freshness.** [`KeyResolver`] follows the core's change feed. A revoked or banned key is refused within
//!   about a second, and at the latest thirty seconds after the core last confirmed the key.
//! - **Few calls.** A key is looked up once for all requests that wait for it, and in one call with others.
//!   A flood of unknown keys does not delay the lookups of known ones, and client addresses take turns.
//! - **Secrecy.** Keys are only compared by their SHA-256 digest.
//! - **Bans.** A ban is in force here at once, and reaches the other gateways through the core. [`LastBan`]
//!   says which of two bans of a key holds.
//!
//! # Failures
//!
//! [`KeyError`] is the reason why a request has no usable key. While the core is away
//! ([`KeyError::CoreAway`]), cached keys are used for thirty seconds. [`KeyResolver::core_fault`] is what an
//! operator should know of it.
//!
//! # Example
//!
//! ```
//! use std::net::IpAddr;
//!
//! use petstore_caller::api_key::{ApiKey, Environment};
//! use petstore_clock::Clock;
//! use petstore_core_client::{CoreAddress, TracedTransport, connect};
//! use petstore_key_cache::{KeyError, KeyResolver};
//! use petstore_proto::internal::v1::ListChangesResponse;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let urls = vec!["http://127.0.0.1:1".to_owned()]; // no core listens there
//! let core = connect(CoreAddress { urls, tls: None, token: None }).expect("a valid URL");
//! let log_name = |answer: &ListChangesResponse| println!("the counters of {}", answer.installation);
//! let keys = KeyResolver::new(TracedTransport::from(core), &[], log_name, Clock::system(), "");
//! tokio::spawn(keys.clone().keep_current(std::future::pending()));
//!
//! let key = ApiKey::generate(Environment::Production);
//! let client: IpAddr = [192, 0, 2, 1].into();
//! let unusable = keys.resolve(&key, client).await.unwrap_err();
//! assert_eq!(unusable.error, KeyError::CoreAway);
//! # }
//! ```

mod bans;
mod cached_key;
mod changes;
mod key_service;
mod lookups;
mod resolver;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use petstore_caller::{client_address::AllowedAddresses, plans::Quota};
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::Plan;

pub use self::{bans::LastBan, resolver::KeyResolver};

/// API key that may be used now.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// Identifier of the key; not secret.
    pub key_id: Arc<str>,
    /// Account that the key belongs to.
    pub account_id: i64,
    /// Plan of the account.
    pub plan: Plan,
    /// Request quota of the account.
    pub quota: Quota,
    /// Time of expiry by the core's clock; `None` if it never expires.
    pub expires_at: Option<UnixMillis>,
    /// Last four characters of the key; empty if the core is too old to send them.
    pub last_four: Box<str>,
    /// Label of the key; may be empty.
    pub label: Box<str>,
    /// `true` if the key may only read.
    pub is_read_only: bool,
    /// Addresses that may use the key.
    pub allowed_addresses: AllowedAddresses,
    /// Last ban of the key that the core knows of.
    last_ban: Option<LastBan>,
}

impl KnownKey {
    /// Returns a key that was never banned, never expires, has no label and may be used for everything.
    pub fn new(key_id: Arc<str>, account_id: i64, plan: Plan, quota: Quota) -> Self {
        let (last_four, label, allowed_addresses) = Default::default();
        Self {
            key_id,
            account_id,
            plan,
            quota,
            expires_at: None,
            last_four,
            label,
            is_read_only: false,
            allowed_addresses,
            last_ban: None,
        }
    }
}

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
    /// It is bound to other addresses than the client's.
    AddressNotAllowed,
    /// The core cannot be reached, and the key is not cached, or stale.
    CoreAway,
    /// Too many keys wait to be looked up.
    Overloaded,
}
