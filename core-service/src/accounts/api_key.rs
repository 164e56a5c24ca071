//! Stored data of an API key: everything but the key.

use std::{fmt, str::FromStr};

use petstore_caller::api_key::{ApiKey, Environment};
use petstore_caller::client_address::AllowedAddresses;
use petstore_clock::UnixMillis;
use uuid::{NoContext, Timestamp, Uuid};

use super::{AccountId, AccountName, Remark};
use crate::{errors::PetStoreError, pages::PageSize, violations::Violation};

/// Identifier of a key; not secret. A UUID of version 7 (RFC 9562), so that keys sort by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Uuid);

impl KeyId {
    /// Generates a new identifier.
    pub(crate) fn generate(now: UnixMillis) -> Self {
        let nanos = u32::try_from(now.0 % 1_000).unwrap_or_default() * 1_000_000;
        Self(Uuid::new_v7(Timestamp::from_unix(NoContext, now.as_secs(), nanos)))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for KeyId {
    type Err = Violation;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        raw.parse()
            .map(Self)
            .map_err(|_| Violation::new("key", "must be the UUID that the list of keys shows"))
    }
}

/// State of a key at a given time. The numbers are those of `KeyState` in the contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum KeyState {
    /// The key may be used.
    Active = 1,
    /// The key was revoked.
    Revoked = 2,
    /// The key has expired.
    Expired = 3,
}

impl KeyState {
    /// Returns the state at `now`. Revocation outranks expiry, since it was decided by an operator. A key is
    /// expired from `expires_at` on.
    pub(crate) fn at(
        now: UnixMillis,
        revoked_at: Option<UnixMillis>,
        expires_at: Option<UnixMillis>,
    ) -> Self {
        if revoked_at.is_some() {
            Self::Revoked
        } else if expires_at.is_some_and(|expires_at| expires_at <= now) {
            Self::Expired
        } else {
            Self::Active
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
        })
    }
}

/// Requests that a key may make. It is fixed when the key is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyScope {
    /// `true` if the key may only read.
    pub is_read_only: bool,
    /// Addresses that may use the key.
    pub addresses: AllowedAddresses,
}

impl KeyScope {
    /// Reads the columns of a stored key. `None` if the addresses are malformed. Another access than full is
    /// of a newer release, and read as the smallest one.
    pub(crate) fn stored(access: Option<&str>, addresses: Option<&str>) -> Option<Self> {
        let addresses = AllowedAddresses::parse(addresses.into_iter().flat_map(|it| it.split(','))).ok()?;
        Some(Self { is_read_only: access.is_some(), addresses })
    }

    /// Returns the columns: `access`, and the addresses.
    pub(crate) fn columns(&self) -> (Option<String>, Option<String>) {
        let addresses = self.addresses.written();
        let addresses = (!addresses.is_empty()).then(|| addresses.join(","));
        (self.is_read_only.then(|| "read".to_owned()), addresses)
    }
}

/// Properties of a new key. A rotation keeps label and scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyProperties {
    /// Label.
    pub label: Option<Remark>,
    /// Requests that it may make.
    pub scope: KeyScope,
    /// Time of expiry; `None` if it never expires.
    pub expires_at: Option<UnixMillis>,
    /// Key that it replaces; `None` if no rotation creates it.
    pub replaces: Option<KeyId>,
}

/// A key as lists show it: neither the key nor its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// Identifier.
    pub id: KeyId,
    /// Account that it belongs to.
    pub account: AccountName,
    /// Identifier of that account.
    pub account_id: AccountId,
    /// Label that operators gave it.
    pub label: Option<Remark>,
    /// Requests that it may make.
    pub scope: KeyScope,
    /// Environment of the key; its prefix names it.
    pub environment: Environment,
    /// Last four characters of the key.
    pub last_four: String,
    /// Time of creation.
    pub created_at: UnixMillis,
    /// Time of expiry; `None` if it never expires.
    pub expires_at: Option<UnixMillis>,
    /// Time of revocation.
    pub revoked_at: Option<UnixMillis>,
    /// Time of the last use that gateways have reported.
    pub last_used_at: Option<UnixMillis>,
    /// Key that it replaces.
    pub replaces: Option<KeyId>,
}

/// Filters of a page of keys, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListKeys {
    /// Maximum number of keys.
    pub size: PageSize,
    /// Only keys older than this one.
    pub after: Option<KeyId>,
    /// Only keys of this account.
    pub account: Option<AccountId>,
    /// Only active keys that have not been used since this time, and are as old.
    pub unused_since: Option<UnixMillis>,
    /// Only active keys that expire until this time.
    pub expiring_until: Option<UnixMillis>,
    /// The current time, which decides what is active.
    pub now: UnixMillis,
}

impl ApiKeyRecord {
    /// Returns the key's state at that time.
    pub fn state(&self, now: UnixMillis) -> KeyState {
        KeyState::at(now, self.revoked_at, self.expires_at)
    }

    /// Checks that the key is neither revoked nor expired at that time.
    pub(crate) fn check_active(&self, now: UnixMillis) -> Result<(), PetStoreError> {
        match self.state(now) {
            KeyState::Active => Ok(()),
            state @ (KeyState::Revoked | KeyState::Expired) => {
                Err(PetStoreError::KeyNotActive { id: self.id.to_string(), state: state.to_string() })
            }
        }
    }
}

/// Expiry of a key that replaces another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewExpiry {
    /// Lifetime that the old key was created with, counted from now on, to the last time at most.
    SameLifetime,
    /// Expires at this time.
    At(UnixMillis),
    /// No expiry.
    Never,
}

impl NewExpiry {
    /// Returns the expiry of a key that is made now in place of `old`, as that was created.
    pub fn of(self, old: &ApiKeyRecord, now: UnixMillis) -> Option<UnixMillis> {
        match self {
            Self::SameLifetime => Some(now.plus(old.expires_at?.since(old.created_at)).min(UnixMillis::LAST)),
            Self::At(at) => Some(at),
            Self::Never => None,
        }
    }
}

/// A new key. It is never shown whole again.
#[derive(Debug)]
pub struct IssuedKey {
    /// Stored data of the key.
    pub record: ApiKeyRecord,
    /// The key, to be shown to its owner once.
    pub key: ApiKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_expired_from_its_expiry_on() {
        let expiry = Some(UnixMillis(10));
        let states = [9, 10, 11].map(|now| KeyState::at(UnixMillis(now), None, expiry));
        assert_eq!(states, [KeyState::Active, KeyState::Expired, KeyState::Expired]);
        assert_eq!(KeyState::at(UnixMillis(u64::MAX), None, None), KeyState::Active);
    }

    #[test]
    fn the_same_lifetime_ends_with_the_year_9999_at_the_latest() {
        let key = |expires_at| ApiKeyRecord {
            id: KeyId::generate(UnixMillis(0)),
            account: AccountName::parse("acme").unwrap(),
            account_id: AccountId(1),
            label: None,
            scope: KeyScope::default(),
            environment: Environment::Production,
            last_four: String::new(),
            created_at: UnixMillis(5),
            expires_at,
            revoked_at: None,
            last_used_at: None,
            replaces: None,
        };
        for (expires_at, expected) in [
            (None, None),
            (Some(UnixMillis(15)), Some(UnixMillis(110))),
            (Some(UnixMillis::LAST), Some(UnixMillis::LAST)),
        ] {
            assert_eq!(NewExpiry::SameLifetime.of(&key(expires_at), UnixMillis(100)), expected);
        }
    }

    #[test]
    fn a_revoked_key_stays_revoked_when_it_expires() {
        assert_eq!(
            KeyState::at(UnixMillis(11), Some(UnixMillis(1)), Some(UnixMillis(10))),
            KeyState::Revoked
        );
    }

    #[test]
    fn key_identifiers_sort_by_age_and_read_back() {
        let [old, new] = [1_000, 1_001].map(|now| KeyId::generate(UnixMillis(now)));
        assert!(old < new && old.to_string() < new.to_string());
        assert_eq!(old.to_string().parse(), Ok(old));
        assert!("nonsense".parse::<KeyId>().is_err());
    }
}
