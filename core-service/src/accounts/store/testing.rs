//! Changes of accounts for tests, each in a transaction of its own, as a program makes them that records who
//! makes the change.

use std::time::Duration;

use petstore_caller::api_key::Environment;
use petstore_clock::UnixMillis;

use super::{Accounts, accounts, bans, keys};
use crate::{
    accounts::{Account, AccountName, ApiKeyRecord, Ban, IssuedKey, KeyId, KeyProperties, Plan, Remark},
    errors::PetStoreError,
};

impl Accounts {
    /// Creates an account.
    ///
    /// # Errors
    ///
    /// As [`accounts::insert`].
    pub async fn create_account(
        &self,
        name: &AccountName,
        plan: Plan,
        now: UnixMillis,
    ) -> Result<Account, PetStoreError> {
        let name = name.clone();
        self.database
            .transaction(move |it| Box::pin(async move { accounts::insert(it, &name, plan, now).await }))
            .await
    }

    /// Replaces an account by the result of `change`.
    ///
    /// # Errors
    ///
    /// As [`accounts::change`].
    pub async fn change_account(
        &self,
        name: &AccountName,
        now: UnixMillis,
        change: impl FnOnce(Account) -> Result<Account, PetStoreError> + Clone + Send + 'static,
    ) -> Result<Account, PetStoreError> {
        let name = name.clone();
        let changed = self
            .database
            .transaction(move |it| Box::pin(async move { accounts::change(it, &name, now, change).await }));
        changed.await.map(|(_, after)| after)
    }

    /// Creates a key.
    ///
    /// # Errors
    ///
    /// As [`keys::create`].
    pub async fn create_key(
        &self,
        account: &AccountName,
        label: Option<Remark>,
        environment: Environment,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        let account = account.clone();
        let properties = KeyProperties { label, expires_at, ..KeyProperties::default() };
        self.database
            .transaction(move |it| {
                Box::pin(async move { keys::create(it, &account, environment, properties, now).await })
            })
            .await
    }

    /// Revokes a key.
    ///
    /// # Errors
    ///
    /// As [`keys::revoke`].
    pub async fn revoke_key(&self, id: KeyId, now: UnixMillis) -> Result<ApiKeyRecord, PetStoreError> {
        let revoked =
            self.database.transaction(move |it| Box::pin(async move { keys::revoke(it, id, now).await }));
        revoked.await.map(|(_, after)| after)
    }

    /// Replaces a key.
    ///
    /// # Errors
    ///
    /// As [`keys::replace`].
    pub async fn replace_key(
        &self,
        id: KeyId,
        grace: Duration,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        let replaced = self.database.transaction(move |it| {
            Box::pin(async move {
                let old = keys::find(it, id).await?;
                keys::replace(it, &old, grace, expires_at, now).await
            })
        });
        replaced.await.map(|(new, _)| new)
    }

    /// Bans a key.
    ///
    /// # Errors
    ///
    /// As [`bans::impose`].
    pub async fn add_ban(
        &self,
        id: KeyId,
        length: Duration,
        reason: Option<Remark>,
        now: UnixMillis,
    ) -> Result<Ban, PetStoreError> {
        let imposed = self
            .database
            .transaction(move |it| Box::pin(async move { bans::impose(it, id, length, reason, now).await }));
        imposed.await.map(|(.., ban)| ban)
    }

    /// Lifts the bans of a key.
    ///
    /// # Errors
    ///
    /// As [`bans::lift`].
    pub async fn lift_ban(&self, id: KeyId, now: UnixMillis) -> Result<(), PetStoreError> {
        let lifted =
            self.database.transaction(move |it| Box::pin(async move { bans::lift(it, id, now).await }));
        lifted.await.map(drop)
    }
}
