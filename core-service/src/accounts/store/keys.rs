//! API keys in the database. Functions with a transaction change a key in it, for a program that records who
//! makes the change.

use std::time::Duration;

use petstore_caller::api_key::{ApiKey, Environment, KeyDigest};
use petstore_clock::UnixMillis;
use petstore_database::Session;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select, Value,
    sea_query::{Expr, ExprTrait, Func},
};

use super::{
    Accounts, accounts,
    changes::touch,
    entity::{
        account,
        api_key::{self, record},
    },
};
use crate::{
    accounts::{Account, AccountId, AccountName, ApiKeyRecord, IssuedKey, KeyId, KeyProperties, ListKeys},
    errors::PetStoreError,
    violations::Violation,
};

mod resolve;

impl Accounts {
    /// Returns the keys of an account, oldest first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn keys_of(&self, account: &Account) -> Result<Vec<ApiKeyRecord>, PetStoreError> {
        let find = api_key::Entity::find()
            .filter(api_key::Column::AccountId.eq(account.id.0))
            .order_by_asc(api_key::Column::Id);
        self.database.all(find).await?.into_iter().map(|row| record(row, account.name.clone())).collect()
    }

    /// Returns a page of keys, newest first, with one more than the page has. The first page includes the
    /// total.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn list_keys(&self, list: ListKeys) -> Result<(Vec<ApiKeyRecord>, Option<i64>), PetStoreError> {
        let now = list.now.as_i64();
        let expires = || api_key::Column::ExpiresAt.if_null(i64::MAX);
        let is_active = Condition::all().add(api_key::Column::RevokedAt.is_null()).add(expires().gt(now));
        let unused = list.unused_since.map(|since| {
            let last_use = Func::coalesce([
                Expr::col(api_key::Column::LastUsedAt.as_column_ref()),
                Expr::col(api_key::Column::CreatedAt.as_column_ref()),
            ]);
            Expr::expr(last_use).lte(since.as_i64())
        });
        let expiring = list.expiring_until.map(|until| expires().lte(until.as_i64()));
        let is_filtered = unused.is_some() || expiring.is_some();
        let filters = Condition::all()
            .add_option(list.account.map(|id| api_key::Column::AccountId.eq(id.0)))
            .add_option(unused)
            .add_option(expiring)
            .add_option(is_filtered.then_some(is_active));
        let find = api_key::Entity::find().filter(filters);
        let total = if list.after.is_none() { Some(self.database.count(find.clone()).await?) } else { None };
        let after = list.after.map(|after| api_key::Column::Id.lt(after.to_string()));
        let find = find
            .filter(Condition::all().add_option(after))
            .order_by_desc(api_key::Column::Id)
            .limit(list.size.get() as u64 + 1);
        Ok((self.with_accounts(find).await?, total))
    }

    /// Returns the existing keys among those with these digests, each with its digest.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn find_keys(
        &self,
        digests: &[KeyDigest],
    ) -> Result<Vec<(KeyDigest, ApiKeyRecord)>, PetStoreError> {
        let digests = digests.iter().map(|digest| digest.0.to_vec());
        let find = api_key::Entity::find()
            .filter(api_key::Column::Digest.is_in(digests))
            .find_also_related(account::Entity);
        let rows = self.database.read(move |db| Box::pin(find.clone().all(db))).await?;
        let found = rows.into_iter().filter_map(|(row, account)| {
            let digest = row.digest.as_slice().try_into().ok()?; // of 32 bytes
            Some(record(row, name_of(account)).map(|key| (KeyDigest(digest), key)))
        });
        found.collect()
    }

    /// Returns the newest key that replaces this one, if any does.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn successor_of(&self, id: KeyId) -> Result<Option<ApiKeyRecord>, PetStoreError> {
        let find = api_key::Entity::find()
            .filter(api_key::Column::Replaces.eq(id.to_string()))
            .order_by_desc(api_key::Column::Id);
        Ok(self.with_accounts(find).await?.into_iter().next())
    }

    /// Returns the keys that the query finds, with the names of their accounts.
    async fn with_accounts(&self, find: Select<api_key::Entity>) -> Result<Vec<ApiKeyRecord>, PetStoreError> {
        let find = find.find_also_related(account::Entity);
        let rows = self.database.read(move |db| Box::pin(find.clone().all(db))).await?;
        rows.into_iter().map(|(row, account)| record(row, name_of(account))).collect()
    }

    /// Returns the key with this identifier.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn find_key(&self, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
        let found = self.with_accounts(api_key::Entity::find_by_id(id.to_string())).await?.pop();
        found.ok_or(PetStoreError::KeyNotFound(id.to_string()))
    }
}

/// Creates a key for an account, in a transaction.
///
/// # Errors
///
/// [`PetStoreError::Invalid`] if its expiry has passed, [`PetStoreError::AccountNotFound`], or the store's
/// error.
pub async fn create(
    transaction: &Session,
    account: &AccountName,
    environment: Environment,
    properties: KeyProperties,
    now: UnixMillis,
) -> Result<IssuedKey, PetStoreError> {
    check_expiry(properties.expires_at, now)?;
    let account = accounts::find(transaction, account).await?;
    touch(transaction, account.id.0, now).await?;
    let key = ApiKey::generate(environment);
    let record = insert(transaction, account.id, account.name, &key, properties, now).await?;
    Ok(IssuedKey { record, key })
}

/// Adds a key, in a transaction that has changed its account.
///
/// # Errors
///
/// If the database fails.
pub async fn insert(
    transaction: &Session,
    account_id: AccountId,
    account: AccountName,
    key: &ApiKey,
    KeyProperties { label, scope, expires_at, replaces }: KeyProperties,
    now: UnixMillis,
) -> Result<ApiKeyRecord, PetStoreError> {
    let (access, allowed_addresses) = scope.columns();
    let row = api_key::ActiveModel {
        id: Set(KeyId::generate(now).to_string()),
        account_id: Set(account_id.0),
        digest: Set(key.digest().0.to_vec()),
        prefix: Set(key.environment().key_prefix().to_owned()),
        last_four: Set(key.last_four().to_owned()),
        created_at: Set(now.as_i64()),
        expires_at: Set(expires_at.map(UnixMillis::as_i64)),
        label: Set(label.map(|label| label.as_str().to_owned())),
        access: Set(access),
        allowed_addresses: Set(allowed_addresses),
        replaces: Set(replaces.map(|id| id.to_string())),
        ..Default::default()
    };
    record(api_key::Entity::insert(row).exec_with_returning(transaction).await?, account)
}

/// Revokes a key permanently, in a transaction. A key that is already revoked stays unchanged. Returns the
/// key before and after.
///
/// # Errors
///
/// [`PetStoreError::KeyNotFound`], or the store's error.
pub async fn revoke(
    transaction: &Session,
    id: KeyId,
    now: UnixMillis,
) -> Result<(ApiKeyRecord, ApiKeyRecord), PetStoreError> {
    let before = find(transaction, id).await?;
    let mut after = before.clone();
    if before.revoked_at.is_none() {
        touch(transaction, before.account_id.0, now).await?;
        set(transaction, id, api_key::Column::RevokedAt, now.as_i64()).await?;
        after.revoked_at = Some(now);
    }
    Ok((before, after))
}

/// Creates a key of the same account, environment, label and scope, which replaces `old`, in a transaction
/// that has read that key. The old key expires after `grace`, and never later than it would have. Returns the
/// new key and the old one.
///
/// # Errors
///
/// [`PetStoreError::KeyNotActive`], [`PetStoreError::Invalid`] if `expires_at` has passed, or the store's
/// error.
pub async fn replace(
    transaction: &Session,
    old: &ApiKeyRecord,
    grace: Duration,
    expires_at: Option<UnixMillis>,
    now: UnixMillis,
) -> Result<(IssuedKey, ApiKeyRecord), PetStoreError> {
    // A rotation that began later may have ended first, and given the old key its end.
    let earlier = api_key::Entity::find()
        .filter(api_key::Column::Replaces.eq(old.id.to_string()))
        .order_by_desc(api_key::Column::CreatedAt);
    let earlier = earlier.one(transaction).await?.map(|row| UnixMillis::stored(row.created_at));
    let now = earlier.map_or(now, |earlier| earlier.max(now));
    old.check_active(now)?;
    check_expiry(expires_at, now)?;
    touch(transaction, old.account_id.0, now).await?;
    let end = now.plus(grace);
    let end = old.expires_at.map_or(end, |expires_at| expires_at.min(end));
    set(transaction, old.id, api_key::Column::ExpiresAt, end.as_i64()).await?;
    let (key, account) = (ApiKey::generate(old.environment), old.account.clone());
    let (label, scope, replaces) = (old.label.clone(), old.scope.clone(), Some(old.id));
    let properties = KeyProperties { label, scope, expires_at, replaces };
    let record = insert(transaction, old.account_id, account, &key, properties, now).await?;
    Ok((IssuedKey { record, key }, ApiKeyRecord { expires_at: Some(end), ..old.clone() }))
}

/// Checks that a key expires in the future, if ever.
fn check_expiry(expires_at: Option<UnixMillis>, now: UnixMillis) -> Result<(), Violation> {
    Violation::check(expires_at.is_none_or(|at| at > now), "expireTime", "must be in the future")
}

/// Returns a key, in a transaction.
///
/// # Errors
///
/// [`PetStoreError::KeyNotFound`], or the store's error.
pub async fn find(transaction: &Session, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
    let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
    let (row, account) = find.one(transaction).await?.ok_or(PetStoreError::KeyNotFound(id.to_string()))?;
    record(row, name_of(account))
}

async fn set(
    transaction: &Session,
    id: KeyId,
    column: api_key::Column,
    value: impl Into<Value>,
) -> Result<(), PetStoreError> {
    let update = api_key::Entity::update_many().col_expr(column, Expr::value(value));
    update.filter(api_key::Column::Id.eq(id.to_string())).exec(transaction).await?;
    Ok(())
}

/// Returns the name of the account. A foreign key guarantees that there is one.
pub(super) fn name_of(account: Option<account::Model>) -> AccountName {
    AccountName::stored(account.map(|account| account.name).unwrap_or_default())
}
