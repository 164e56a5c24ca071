//! Changes of API keys and their bans.

use std::time::Duration;

use petstore_caller::api_key::Environment;
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        AccountName, ApiKeyRecord, Ban, IssuedKey, KeyId, KeyProperties, KeyState, NewExpiry, Remark,
        store::{bans, keys},
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
}
