//! Changes of accounts, their keys and bans, and of the calendar of brownouts.

use std::time::Duration;

use futures_util::future::BoxFuture;
use petstore_caller::api_key::{ApiKey, Environment};
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        Account, AccountName, AccountUpdate, ApiKeyRecord, Ban, IssuedKey, KeyId, KeyProperties, KeyState,
        NewExpiry, Plan, Remark,
        store::{
            accounts, bans,
            brownouts::{self, Brownout},
            keys,
        },
    },
    errors::PetStoreError,
};
use serde_json::json;

use super::{AdminStore, audit};
use crate::{
    domain::{Actor, Audited, Change, ban_json},
    error::Result,
};

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

    /// Creates a key for an account.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Invalid`] if its expiry has passed, [`PetStoreError::AccountNotFound`], or the
    /// store's error.
    pub async fn create_key(
        &self,
        actor: &Actor,
        account: &AccountName,
        environment: Environment,
        properties: KeyProperties,
        now: UnixMillis,
    ) -> Result<IssuedKey> {
        let account = account.clone();
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let issued = keys::create(change.session, &account, environment, properties, now).await?;
                change.record("CreateKey", None, &issued.record).await?;
                Ok(issued)
            })
        })
        .await
    }

    /// Revokes a key permanently. A key that is already revoked stays unchanged.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn revoke_key(&self, actor: &Actor, id: KeyId, now: UnixMillis) -> Result<ApiKeyRecord> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let (before, after) = keys::revoke(change.session, id, now).await?;
                if after != before {
                    change.record("RevokeKey", Some(&before), &after).await?;
                }
                Ok(after)
            })
        })
        .await
    }

    /// Creates a key of the same account, environment, label and scope, which replaces another key. The old
    /// key expires after `grace`, and never later than it would have. If `environment` is given, a key of
    /// another environment is left unchanged. Returns the new key and the old one.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], [`PetStoreError::KeyNotActive`],
    /// [`PetStoreError::KeyOfAnotherEnvironment`], or the store's error.
    pub async fn rotate_key(
        &self,
        actor: &Actor,
        id: KeyId,
        grace: Duration,
        environment: Option<Environment>,
        expiry: NewExpiry,
        now: UnixMillis,
    ) -> Result<(IssuedKey, ApiKeyRecord)> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let old = keys::find(change.session, id).await?;
                if environment.is_some_and(|environment| environment != old.environment) {
                    let (id, environment) = (id.to_string(), old.environment);
                    return Err(PetStoreError::KeyOfAnotherEnvironment { id, environment }.into());
                }
                let first_expiry = audit::first_expiry(change.session, &old).await?;
                let created = ApiKeyRecord { expires_at: first_expiry, ..old.clone() };
                let expires_at = expiry.of(&created, now);
                let (new, expiring) = keys::replace(change.session, &old, grace, expires_at, now).await?;
                let after = json!({ "old": expiring.json(), "new": new.record.json() });
                let rotation = Change {
                    action: "RotateKey",
                    subject: old.subject(),
                    before: Some(old.json()),
                    after: Some(after),
                };
                audit::record(change.session, &change.actor, now, rotation).await?;
                Ok((new, expiring))
            })
        })
        .await
    }

    /// Bans a key from now on. The new ban replaces any other. The key's owner is shown the reason. The next
    /// ban depends on its length, as after any other. Returns the key's account too.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Invalid`] if `length` is zero, [`PetStoreError::KeyNotFound`],
    /// [`PetStoreError::KeyNotActive`], or the store's error.
    pub async fn add_ban(
        &self,
        actor: &Actor,
        id: KeyId,
        length: Duration,
        reason: Option<Remark>,
        now: UnixMillis,
    ) -> Result<(AccountName, Ban)> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let (key, before, ban) = bans::impose(change.session, id, length, reason, now).await?;
                let (before, after) = (before.as_ref().map(ban_json), Some(ban_json(&ban)));
                let imposition = Change { action: "CreateBan", subject: key.subject(), before, after };
                audit::record(change.session, &change.actor, now, imposition).await?;
                Ok((key.account, ban))
            })
        })
        .await
    }

    /// Lifts a key's ban and resets its history, so that the next ban is as short as a first one. Applies
    /// also to bans that were imposed earlier but are not known here yet.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn lift_ban(&self, actor: &Actor, id: KeyId, now: UnixMillis) -> Result<()> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let (key, before) = bans::lift(change.session, id, now).await?;
                // A gateway may not have reported the ban of an active key yet, which is lifted too.
                if before.is_none() && key.state(now) != KeyState::Active {
                    return Ok(());
                }
                let (subject, before) = (key.subject(), before.as_ref().map(ban_json));
                let lifting = Change { action: "LiftBan", subject, before, after: None };
                Ok(audit::record(change.session, &change.actor, now, lifting).await?)
            })
        })
        .await
    }

    /// Plans a brownout, from a time and for a length, for one account or for all.
    ///
    /// # Errors
    ///
    /// See [`brownouts::plan`].
    pub(crate) async fn plan_brownout(
        &self,
        actor: &Actor,
        account: Option<AccountName>,
        period: (UnixMillis, Duration),
        now: UnixMillis,
    ) -> Result<Brownout> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let planned = brownouts::plan(change.session, account.as_ref(), period, now).await?;
                change.record("CreateBrownout", None, &planned).await?;
                Ok(planned)
            })
        })
        .await
    }

    /// Cancels a brownout, unless it has ended or does not exist.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub(crate) async fn cancel_brownout(&self, actor: &Actor, id: i64, now: UnixMillis) -> Result<()> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let Some(cancelled) = brownouts::cancel(change.session, id, now).await? else {
                    return Ok(());
                };
                let (subject, before) = (cancelled.subject(), Some(cancelled.json()));
                let cancellation = Change { action: "CancelBrownout", subject, before, after: None };
                Ok(audit::record(change.session, &change.actor, now, cancellation).await?)
            })
        })
        .await
    }
}
