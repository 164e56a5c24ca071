//! What an operator does with keys.

use std::time::Duration;

use petstore_api_key::{ApiKey, Environment};
use petstore_clock::{Clock, UnixMillis};

use crate::{
    domain::{Account, AccountError, AccountName, ApiKeyRecord, KeyId, Violation},
    store::{NewApiKey, Store},
};

/// A new key: the only time that anybody sees it whole.
#[derive(Debug)]
pub struct IssuedKey {
    /// What is kept of it.
    pub record: ApiKeyRecord,
    /// The key, to be shown to its owner once.
    pub key: ApiKey,
}

/// Creates a key for an account; without `expires_at` it never expires.
///
/// # Errors
///
/// [`AccountError::Invalid`] if it were to be expired already, [`AccountError::AccountNotFound`], or the store's
/// error.
pub async fn create(
    store: &Store,
    clock: &Clock,
    account: &AccountName,
    environment: Environment,
    expires_at: Option<UnixMillis>,
) -> Result<IssuedKey, AccountError> {
    let now = clock.now();
    if expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Violation::new("expiry", "must be in the future").into());
    }
    let (key, new) = issue(now, environment, expires_at);
    let record = store.insert_key(account, new).await?;
    Ok(IssuedKey { record, key })
}

/// The keys of one account, or of all, oldest first.
///
/// # Errors
///
/// [`AccountError::AccountNotFound`], or the store's error.
pub async fn list(store: &Store, account: Option<&AccountName>) -> Result<Vec<ApiKeyRecord>, AccountError> {
    if let Some(name) = account {
        store.find_account(name).await?;
    }
    Ok(store.list_keys(account).await?)
}

/// The account that a key belongs to.
///
/// # Errors
///
/// [`AccountError::KeyNotFound`], or the store's error.
pub async fn owner(store: &Store, id: KeyId) -> Result<Account, AccountError> {
    store.owner_of(id).await
}

/// Revokes a key for good. Revoking it again changes nothing.
///
/// # Errors
///
/// [`AccountError::KeyNotFound`], or the store's error.
pub async fn revoke(store: &Store, clock: &Clock, id: KeyId) -> Result<ApiKeyRecord, AccountError> {
    store.revoke_key(id, clock.now()).await
}

/// Creates a key, of the same account and environment and without an expiry, to take the place of another. The
/// old one expires after `grace`, and never later than it would have. A key of another environment than
/// `environment`, if that is given, is left alone.
///
/// # Errors
///
/// [`AccountError::KeyNotFound`], [`AccountError::KeyNotActive`], [`AccountError::KeyOfAnotherEnvironment`], or the
/// store's error.
pub async fn rotate(
    store: &Store,
    clock: &Clock,
    id: KeyId,
    grace: Duration,
    environment: Option<Environment>,
) -> Result<IssuedKey, AccountError> {
    let now = clock.now();
    let (record, key) = store
        .rotate_key(id, now, grace, environment, move |environment| issue(now, environment, None))
        .await?;
    Ok(IssuedKey { record, key })
}

/// Makes a key, and what the store keeps of it.
fn issue(now: UnixMillis, environment: Environment, expires_at: Option<UnixMillis>) -> (ApiKey, NewApiKey) {
    let key = ApiKey::generate(environment);
    let new = kept(&key, now, expires_at);
    (key, new)
}

/// What the store keeps of a key.
pub(super) fn kept(key: &ApiKey, now: UnixMillis, expires_at: Option<UnixMillis>) -> NewApiKey {
    NewApiKey {
        id: KeyId::generate(now),
        digest: key.digest(),
        environment: key.environment(),
        last_four: key.last_four().to_owned(),
        created_at: now,
        expires_at,
    }
}
