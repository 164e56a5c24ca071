//! What an operator does with accounts and their keys. The same store may be served by a running server
//! meanwhile: its gateways learn of every change within seconds.

use petstore_api_key::ApiKey;
use petstore_clock::Clock;

pub use crate::domain::{
    Account, AccountError, AccountId, AccountName, ApiKeyRecord, Ban, BanOrigin, BanReason, BanRecord, Day,
    KeyId, KeyState, Plan, Quota, Tally, UsageDay,
};
use crate::store::Store;

pub mod bans;
pub mod keys;
pub mod usage;

pub use keys::IssuedKey;

/// The name of the account that a new store begins with.
const FIRST_ACCOUNT: &str = "first";

/// Creates an account.
///
/// # Errors
///
/// [`AccountError::AccountExists`] if the name is taken, or the store's error.
pub async fn create(
    store: &Store,
    clock: &Clock,
    name: &AccountName,
    plan: Plan,
) -> Result<Account, AccountError> {
    store.insert_account(name, plan, clock.now()).await
}

/// Every account, in the order of their names.
///
/// # Errors
///
/// The store's error.
pub async fn list(store: &Store) -> Result<Vec<Account>, AccountError> {
    Ok(store.list_accounts().await?)
}

/// The account of that name.
///
/// # Errors
///
/// [`AccountError::AccountNotFound`], or the store's error.
pub async fn find(store: &Store, name: &AccountName) -> Result<Account, AccountError> {
    store.find_account(name).await
}

/// Puts an account on another plan, from its running windows on.
///
/// # Errors
///
/// [`AccountError::AccountNotFound`], or the store's error.
pub async fn set_plan(store: &Store, name: &AccountName, plan: Plan) -> Result<Account, AccountError> {
    store.update_plan(name, plan).await
}

/// Creates account `first` on plan Free with this one key if there is no account yet, in one transaction: of
/// several processes that start on a new store at once, one succeeds. The key is the caller's, so that it can be
/// in safe keeping before the account exists: no crash leaves an account whose key nobody has.
///
/// # Errors
///
/// The store's error.
pub async fn create_first(
    store: &Store,
    clock: &Clock,
    key: &ApiKey,
) -> Result<Option<ApiKeyRecord>, AccountError> {
    let name = AccountName::parse(FIRST_ACCOUNT)?;
    store.insert_first_account(&name, Plan::Free, keys::kept(key, clock.now(), None)).await
}

#[cfg(test)]
mod tests;
