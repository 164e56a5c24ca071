//! API keys in the database.

use std::time::Duration;

use petstore_api_key::Environment;
use petstore_clock::UnixMillis;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::Expr,
};

use super::{
    Session, Store, accounts, audit,
    changes::touch,
    entity::{
        account::{self, moment_column},
        api_key::{self, record},
    },
};
use crate::domain::{
    AccountId, AccountName, Actor, ApiKeyRecord, Change, IssuedKey, KeyId, KeyLabel, KeyState, ListKeys,
    NewApiKey, NewExpiry, PetStoreError, RotatedKey, Subject, key_json,
};

mod resolve;

pub(crate) use resolve::ResolvedKey;

/// The API keys of a store.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    pub(super) store: &'a Store,
    pub(super) actor: &'a Actor,
}

impl<'a> Keys<'a> {
    /// Returns the keys with `actor` as the author of changes.
    #[must_use]
    pub fn by(self, actor: &'a Actor) -> Self {
        Self { actor, ..self }
    }

    /// Creates a key without a label, as [`Self::create_labelled`] does.
    ///
    /// # Errors
    ///
    /// See [`Self::create_labelled`].
    pub async fn create(
        self,
        account: &AccountName,
        environment: Environment,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        self.create_labelled(account, None, environment, expires_at, now).await
    }

    /// Creates a key for an account. Without `expires_at` it never expires.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Invalid`] if `expires_at` has passed, [`PetStoreError::AccountNotFound`], or the
    /// store's error.
    pub async fn create_labelled(
        self,
        account: &AccountName,
        label: Option<KeyLabel>,
        environment: Environment,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        let (key, new) = NewApiKey::issue(environment, label, expires_at, now)?;
        let (actor, account) = (self.actor.clone(), account.clone());
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    let account = accounts::find(transaction, &account).await?;
                    touch(transaction, account.id.0).await?;
                    let record = insert(transaction, &actor, (account.id, account.name), new).await?;
                    Ok(IssuedKey { record, key })
                })
            })
            .await
    }

    /// Returns the keys of one account, or of all, oldest first.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::AccountNotFound`], or the store's error.
    pub async fn list(self, account: Option<&AccountName>) -> Result<Vec<ApiKeyRecord>, PetStoreError> {
        if let Some(name) = account {
            self.store.accounts().find(name).await?;
        }
        let mut find =
            api_key::Entity::find().find_also_related(account::Entity).order_by_asc(api_key::Column::Id);
        if let Some(account) = account {
            find = find.filter(account::Column::Name.eq(account.as_str()));
        }
        let rows = self.store.read(move |db| Box::pin(find.clone().all(db))).await?;
        rows.into_iter().map(|(row, account)| record(row, name_of(account))).collect()
    }

    /// Returns a page of keys, newest first, with one more than the page has. With the first page comes the
    /// number of all that the filter leaves.
    pub(crate) async fn page(
        self,
        list: ListKeys,
    ) -> Result<(Vec<ApiKeyRecord>, Option<u64>), PetStoreError> {
        let mut find = api_key::Entity::find();
        if let Some(name) = &list.account {
            let account = self.store.accounts().find(name).await?;
            find = find.filter(api_key::Column::AccountId.eq(account.id.0));
        }
        let total = if list.after.is_none() { Some(self.store.count(find.clone()).await?) } else { None };
        if let Some(after) = list.after {
            find = find.filter(api_key::Column::Id.lt(after.to_string()));
        }
        let find = find
            .find_also_related(account::Entity)
            .order_by_desc(api_key::Column::Id)
            .limit(list.size.get() as u64 + 1);
        let rows = self.store.read(move |db| Box::pin(find.clone().all(db))).await?;
        let keys = rows.into_iter().map(|(row, account)| record(row, name_of(account)));
        Ok((keys.collect::<Result<_, _>>()?, total))
    }

    /// Returns the key with this identifier.
    pub(crate) async fn find(self, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
        let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
        let found = self.store.read(move |db| Box::pin(find.clone().all(db))).await?.pop();
        let (row, account) = found.ok_or(PetStoreError::KeyNotFound(id))?;
        record(row, name_of(account))
    }

    /// Revokes a key permanently. A key that is revoked already stays unchanged.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn revoke(self, id: KeyId, now: UnixMillis) -> Result<ApiKeyRecord, PetStoreError> {
        let actor = self.actor.clone();
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    let before = find(transaction, id).await?;
                    if before.revoked_at.is_some() {
                        return Ok(before);
                    }
                    touch(transaction, before.account_id.0).await?;
                    set_moment(transaction, id, api_key::Column::RevokedAt, now).await?;
                    let after = ApiKeyRecord { revoked_at: Some(now), ..before.clone() };
                    let change = Change {
                        action: "RevokeKey",
                        subject: subject(&before),
                        before: Some(key_json(&before)),
                        after: Some(key_json(&after)),
                    };
                    audit::record(transaction, &actor, now, change).await?;
                    Ok(after)
                })
            })
            .await
    }

    /// Creates a key of the same account, environment and label, which replaces another key. The old key
    /// expires after `grace`, and never later than it would have. If `environment` is given, a key of another
    /// environment is left unchanged.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], [`PetStoreError::KeyNotActive`],
    /// [`PetStoreError::KeyOfAnotherEnvironment`], or the store's error.
    pub async fn rotate(
        self,
        id: KeyId,
        grace: Duration,
        environment: Option<Environment>,
        expiry: NewExpiry,
        now: UnixMillis,
    ) -> Result<RotatedKey, PetStoreError> {
        let actor = self.actor.clone();
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    let old = find(transaction, id).await?;
                    if environment.is_some_and(|environment| environment != old.environment) {
                        return Err(PetStoreError::KeyOfAnotherEnvironment {
                            id,
                            environment: old.environment,
                        });
                    }
                    match old.state(now) {
                        KeyState::Active => {}
                        state @ (KeyState::Revoked | KeyState::Expired) => {
                            return Err(PetStoreError::KeyNotActive { id, state });
                        }
                    }
                    touch(transaction, old.account_id.0).await?;
                    let end = now.plus(grace);
                    let end = old.expires_at.map_or(end, |expires_at| expires_at.min(end));
                    set_moment(transaction, id, api_key::Column::ExpiresAt, end).await?;
                    let (key, new) =
                        NewApiKey::issue(old.environment, old.label.clone(), expiry.of(&old, now), now)?;
                    let row = key_row(old.account_id, new);
                    let row = api_key::Entity::insert(row).exec_with_returning(transaction).await?;
                    let new = record(row, old.account.clone())?;
                    let expiring = ApiKeyRecord { expires_at: Some(end), ..old.clone() };
                    let after = serde_json::json!({ "old": key_json(&expiring), "new": key_json(&new) });
                    let change = Change {
                        action: "RotateKey",
                        subject: subject(&old),
                        before: Some(key_json(&old)),
                        after: Some(after),
                    };
                    audit::record(transaction, &actor, now, change).await?;
                    Ok(RotatedKey { issued: IssuedKey { record: new, key }, old: expiring })
                })
            })
            .await
    }
}

/// Returns the audit subject of a change to the key.
fn subject(key: &ApiKeyRecord) -> Subject {
    Subject::Key(key.account_id, key.account.clone(), key.id)
}

/// Adds a key, in a transaction that has touched its account.
pub(super) async fn insert(
    transaction: &Session,
    actor: &Actor,
    (account_id, account): (AccountId, AccountName),
    key: NewApiKey,
) -> Result<ApiKeyRecord, PetStoreError> {
    let now = key.created_at;
    let row = api_key::Entity::insert(key_row(account_id, key)).exec_with_returning(transaction).await?;
    let record = record(row, account)?;
    let (subject, after) = (subject(&record), Some(key_json(&record)));
    let change = Change { action: "CreateKey", subject, before: None, after };
    audit::record(transaction, actor, now, change).await?;
    Ok(record)
}

fn key_row(account_id: AccountId, key: NewApiKey) -> api_key::ActiveModel {
    api_key::ActiveModel {
        id: Set(key.id.to_string()),
        account_id: Set(account_id.0),
        digest: Set(key.digest.0.to_vec()),
        prefix: Set(key.environment.key_prefix().to_owned()),
        last_four: Set(key.last_four),
        created_at: Set(moment_column(key.created_at)),
        expires_at: Set(key.expires_at.map(moment_column)),
        revoked_at: Set(None),
        last_used_at: Set(None),
        label: Set(key.label.map(|label| label.as_str().to_owned())),
    }
}

/// Returns a key, in a transaction.
pub(super) async fn find(transaction: &Session, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
    let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
    let (row, account) = find.all(transaction).await?.pop().ok_or(PetStoreError::KeyNotFound(id))?;
    record(row, name_of(account))
}

async fn set_moment(
    transaction: &Session,
    id: KeyId,
    column: api_key::Column,
    moment: UnixMillis,
) -> Result<(), PetStoreError> {
    api_key::Entity::update_many()
        .col_expr(column, Expr::value(moment_column(moment)))
        .filter(api_key::Column::Id.eq(id.to_string()))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns the name of the account. A foreign key guarantees that there is one.
pub(super) fn name_of(account: Option<account::Model>) -> AccountName {
    AccountName::stored(account.map(|account| account.name).unwrap_or_default())
}
