//! API keys in the database. Functions with a transaction change a key in it, for a program that records who
//! makes the change.

use std::time::Duration;

use futures_util::future::BoxFuture;
use petstore_api_key::{ApiKey, Environment};
use petstore_clock::UnixMillis;
use petstore_database::Session;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::Expr,
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
    accounts::{Account, AccountId, AccountName, ApiKeyRecord, IssuedKey, KeyId, KeyProperties},
    columns::moment_column,
    domain::{PageSize, PetStoreError, Violation},
};

mod resolve;

impl Accounts {
    /// Returns `true` if an account has this key, in any state.
    ///
    /// # Errors
    ///
    /// If the database fails.
    #[must_use]
    pub fn has_key<'a>(&'a self, key: &'a ApiKey) -> BoxFuture<'a, Result<bool, PetStoreError>> {
        Box::pin(async move {
            let find = api_key::Entity::find().filter(api_key::Column::Digest.eq(key.digest().0.to_vec()));
            Ok(!self.database.all(find).await?.is_empty())
        })
    }

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

    /// Returns a page of keys after a position, of one account if it is given, newest first, with one more
    /// than the page has. The first page includes the total.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn list_keys(
        &self,
        account: Option<AccountId>,
        after: Option<KeyId>,
        size: PageSize,
    ) -> Result<(Vec<ApiKeyRecord>, Option<i64>), PetStoreError> {
        let of_account = account.map(|id| api_key::Column::AccountId.eq(id.0));
        let find = api_key::Entity::find().filter(Condition::all().add_option(of_account));
        let total = if after.is_none() { Some(self.database.count(find.clone()).await?) } else { None };
        let after = after.map(|after| api_key::Column::Id.lt(after.to_string()));
        let find = find
            .filter(Condition::all().add_option(after))
            .find_also_related(account::Entity)
            .order_by_desc(api_key::Column::Id)
            .limit(size.get() as u64 + 1);
        let rows = self.database.read(move |db| Box::pin(find.clone().all(db))).await?;
        let keys = rows.into_iter().map(|(row, account)| record(row, name_of(account)));
        Ok((keys.collect::<Result<_, _>>()?, total))
    }

    /// Returns the key with this identifier.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn find_key(&self, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
        let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
        let found = self.database.read(move |db| Box::pin(find.clone().all(db))).await?.pop();
        let (row, account) = found.ok_or(PetStoreError::KeyNotFound(id.to_string()))?;
        record(row, name_of(account))
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
    KeyProperties { label, scope, expires_at }: KeyProperties,
    now: UnixMillis,
) -> Result<ApiKeyRecord, PetStoreError> {
    let (access, allowed_addresses) = scope.columns();
    let row = api_key::ActiveModel {
        id: Set(KeyId::generate(now).to_string()),
        account_id: Set(account_id.0),
        digest: Set(key.digest().0.to_vec()),
        prefix: Set(key.environment().key_prefix().to_owned()),
        last_four: Set(key.last_four().to_owned()),
        created_at: Set(moment_column(now)),
        expires_at: Set(expires_at.map(moment_column)),
        revoked_at: Set(None),
        last_used_at: Set(None),
        label: Set(label.map(|label| label.as_str().to_owned())),
        access: Set(access),
        allowed_addresses: Set(allowed_addresses),
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
        set_moment(transaction, id, api_key::Column::RevokedAt, now).await?;
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
    old.check_active(now)?;
    check_expiry(expires_at, now)?;
    touch(transaction, old.account_id.0, now).await?;
    let end = now.plus(grace);
    let end = old.expires_at.map_or(end, |expires_at| expires_at.min(end));
    set_moment(transaction, old.id, api_key::Column::ExpiresAt, end).await?;
    let (key, account) = (ApiKey::generate(old.environment), old.account.clone());
    let properties = KeyProperties { label: old.label.clone(), scope: old.scope.clone(), expires_at };
    let record = insert(transaction, old.account_id, account, &key, properties, now).await?;
    Ok((IssuedKey { record, key }, ApiKeyRecord { expires_at: Some(end), ..old.clone() }))
}

/// Checks that a key expires in the future, if ever.
fn check_expiry(expires_at: Option<UnixMillis>, now: UnixMillis) -> Result<(), Violation> {
    match expires_at {
        Some(expires_at) if expires_at <= now => Err(Violation::new("expireTime", "must be in the future")),
        _ => Ok(()),
    }
}

/// Returns a key, in a transaction.
///
/// # Errors
///
/// [`PetStoreError::KeyNotFound`], or the store's error.
pub async fn find(transaction: &Session, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
    let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
    let (row, account) =
        find.all(transaction).await?.pop().ok_or(PetStoreError::KeyNotFound(id.to_string()))?;
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
