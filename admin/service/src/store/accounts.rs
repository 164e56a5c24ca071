//! Changes of accounts.

use futures_util::future::BoxFuture;
use petstore_caller::api_key::ApiKey;
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        Account, AccountName, AccountUpdate, ApiKeyRecord, KeyProperties, Plan, Remark,
        store::{accounts, keys},
    },
    errors::PetStoreError,
};

use super::AdminStore;
use crate::{domain::Actor, error::Result};

impl AdminStore {
    /// Creates an account.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::AccountExists`] if the name is taken, or the store's error.
    pub async fn create_account(
        &self,
        actor: &Actor,
        name: &AccountName,
        plan: Plan,
        now: UnixMillis,
    ) -> Result<Account> {
        let name = name.clone();
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let account = accounts::insert(change.session, &name, plan, now).await?;
                change.record("CreateAccount", None, &account).await?;
                Ok(account)
            })
        })
        .await
    }

    /// Creates account `first` on plan Free with this one key if there is no account yet, in one transaction.
    /// If several processes start on a new store at once, one of them succeeds. The key is the caller's, so
    /// that it can be stored safely before the account exists: no crash leaves an account whose key is lost.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub fn create_first_account<'a>(
        &'a self,
        key: &'a ApiKey,
        now: UnixMillis,
    ) -> BoxFuture<'a, Result<Option<ApiKeyRecord>>> {
        Box::pin(async move {
            let (name, key) = (AccountName::parse("first")?, key.clone());
            self.change(&Actor::LOCAL, now, move |change| {
                Box::pin(async move {
                    if accounts::exist(change.session).await? {
                        return Ok(None);
                    }
                    let account = accounts::insert(change.session, &name, Plan::Free, now).await?;
                    change.record("CreateAccount", None, &account).await?;
                    let properties = KeyProperties::default();
                    let key = keys::insert(change.session, account.id, name, &key, properties, now).await?;
                    change.record("CreateKey", None, &key).await?;
                    Ok(Some(key))
                })
            })
            .await
        })
    }

    /// Changes an account.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::AccountNotFound`], [`PetStoreError::AccountExists`] if the new name is taken,
    /// [`PetStoreError::Invalid`] if the account's plan has custom limits, or the store's error.
    pub async fn update_account(
        &self,
        actor: &Actor,
        name: &AccountName,
        update: AccountUpdate,
        now: UnixMillis,
    ) -> Result<Account> {
        self.change_account(actor, name, "UpdateAccount", now, |account| Ok(update.apply_to(account)?)).await
    }

    /// Suspends an account. All its keys are refused. An account that is already suspended gets the new
    /// reason.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::AccountNotFound`], or the store's error.
    pub async fn suspend_account(
        &self,
        actor: &Actor,
        name: &AccountName,
        reason: Option<Remark>,
        now: UnixMillis,
    ) -> Result<Account> {
        self.change_account(actor, name, "SuspendAccount", now, move |account| {
            Ok(account.suspended(reason, now))
        })
        .await
    }

    /// Ends an account's suspension. An account that is not suspended stays unchanged.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::AccountNotFound`], or the store's error.
    pub async fn resume_account(
        &self,
        actor: &Actor,
        name: &AccountName,
        now: UnixMillis,
    ) -> Result<Account> {
        self.change_account(actor, name, "ResumeAccount", now, |account| {
            Ok(Account { suspension: None, ..account })
        })
        .await
    }

    /// Replaces the account with the result of `change`, and records that. Does nothing if the account stays
    /// unchanged.
    async fn change_account(
        &self,
        actor: &Actor,
        name: &AccountName,
        action: &'static str,
        now: UnixMillis,
        work: impl FnOnce(Account) -> Result<Account, PetStoreError> + Clone + Send + 'static,
    ) -> Result<Account> {
        let name = name.clone();
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let (before, after) = accounts::change(change.session, &name, now, work).await?;
                if after != before {
                    change.record(action, Some(&before), &after).await?;
                }
                Ok(after)
            })
        })
        .await
    }
}
