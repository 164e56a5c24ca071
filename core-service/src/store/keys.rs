//! API keys in the database.

use std::time::Duration;

use petstore_api_key::Environment;
use petstore_clock::UnixMillis;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, sea_query::Expr};

use super::{
    Session, Store,
    changes::touch,
    entity::{
        account::{self, moment_column},
        api_key::{self, record},
    },
};
use crate::domain::{
    Account, AccountError, AccountName, ApiKeyRecord, IssuedKey, KeyId, KeyState, NewApiKey,
};

mod resolve;

pub(crate) use resolve::ResolvedKey;

/// The API keys of a store.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a>(pub(super) &'a Store);

impl Keys<'_> {
    /// Creates a key for an account; without `expires_at` it never expires.
    ///
    /// # Errors
    ///
    /// [`AccountError::Invalid`] if it were to be expired already, [`AccountError::AccountNotFound`], or the
    /// store's error.
    pub async fn create(
        self,
        account: &AccountName,
        environment: Environment,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, AccountError> {
        let (key, new) = NewApiKey::issue(environment, expires_at, now)?;
        let account = account.clone();
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    let find = account::Entity::find().filter(account::Column::Name.eq(account.as_str()));
                    let row = find.all(transaction).await?.pop();
                    let row = row.ok_or(AccountError::AccountNotFound(account))?;
                    touch(transaction, row.id).await?;
                    let record = insert(transaction, &row.try_into()?, new).await?;
                    Ok(IssuedKey { record, key })
                })
            })
            .await
    }

    /// The keys of one account, or of all, oldest first.
    ///
    /// # Errors
    ///
    /// [`AccountError::AccountNotFound`], or the store's error.
    pub async fn list(self, account: Option<&AccountName>) -> Result<Vec<ApiKeyRecord>, AccountError> {
        if let Some(name) = account {
            self.0.accounts().find(name).await?;
        }
        let mut find =
            api_key::Entity::find().find_also_related(account::Entity).order_by_asc(api_key::Column::Id);
        if let Some(account) = account {
            find = find.filter(account::Column::Name.eq(account.as_str()));
        }
        let rows = self.0.read(move |db| Box::pin(find.clone().all(db))).await?;
        rows.into_iter().map(|(row, account)| Ok(record(row, name_of(account))?)).collect()
    }

    /// Revokes a key for good; one that is revoked already stays as it is.
    ///
    /// # Errors
    ///
    /// [`AccountError::KeyNotFound`], or the store's error.
    pub async fn revoke(self, id: KeyId, now: UnixMillis) -> Result<ApiKeyRecord, AccountError> {
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    let (mut row, account) = find(transaction, id).await?;
                    if row.revoked_at.is_none() {
                        touch(transaction, row.account_id).await?;
                        row.revoked_at = Some(moment_column(now));
                        set_moment(transaction, id, api_key::Column::RevokedAt, row.revoked_at).await?;
                    }
                    Ok(record(row, account)?)
                })
            })
            .await
    }

    /// Creates a key, of the same account and environment and without an expiry, to take the place of
    /// another. The old one expires after `grace`, and never later than it would have. A key of another
    /// environment than `environment`, if that is given, is left alone.
    ///
    /// # Errors
    ///
    /// [`AccountError::KeyNotFound`], [`AccountError::KeyNotActive`],
    /// [`AccountError::KeyOfAnotherEnvironment`], or the store's error.
    pub async fn rotate(
        self,
        id: KeyId,
        grace: Duration,
        environment: Option<Environment>,
        now: UnixMillis,
    ) -> Result<IssuedKey, AccountError> {
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    let (row, account) = find(transaction, id).await?;
                    let (account_id, old) = (row.account_id, record(row, account)?);
                    if environment.is_some_and(|environment| environment != old.environment) {
                        return Err(AccountError::KeyOfAnotherEnvironment {
                            id,
                            environment: old.environment,
                        });
                    }
                    match old.state(now) {
                        KeyState::Active => {}
                        state @ (KeyState::Revoked | KeyState::Expired) => {
                            return Err(AccountError::KeyNotActive { id, state });
                        }
                    }
                    touch(transaction, account_id).await?;
                    let end = now.plus(grace);
                    let end = old.expires_at.map_or(end, |expires_at| expires_at.min(end));
                    set_moment(transaction, id, api_key::Column::ExpiresAt, Some(moment_column(end))).await?;
                    let (key, new) = NewApiKey::issue(old.environment, None, now)?;
                    let row = key_row(account_id, new);
                    let row = api_key::Entity::insert(row).exec_with_returning(transaction).await?;
                    Ok(IssuedKey { record: record(row, old.account)?, key })
                })
            })
            .await
    }
}

/// Adds a key, in a transaction that has touched its account.
pub(super) async fn insert(
    transaction: &Session,
    account: &Account,
    key: NewApiKey,
) -> Result<ApiKeyRecord, AccountError> {
    let row = api_key::Entity::insert(key_row(account.id.0, key)).exec_with_returning(transaction).await?;
    Ok(record(row, account.name.clone())?)
}

fn key_row(account_id: i64, key: NewApiKey) -> api_key::ActiveModel {
    api_key::ActiveModel {
        id: Set(key.id.to_string()),
        account_id: Set(account_id),
        digest: Set(key.digest.0.to_vec()),
        prefix: Set(key.environment.key_prefix().to_owned()),
        last_four: Set(key.last_four),
        created_at: Set(moment_column(key.created_at)),
        expires_at: Set(key.expires_at.map(moment_column)),
        revoked_at: Set(None),
        last_used_at: Set(None),
    }
}

/// A key and the name of its account.
pub(super) async fn find(
    transaction: &Session,
    id: KeyId,
) -> Result<(api_key::Model, AccountName), AccountError> {
    let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
    let (row, account) = find.all(transaction).await?.pop().ok_or(AccountError::KeyNotFound(id))?;
    Ok((row, name_of(account)))
}

async fn set_moment(
    transaction: &Session,
    id: KeyId,
    column: api_key::Column,
    moment: Option<i64>,
) -> Result<(), AccountError> {
    api_key::Entity::update_many()
        .col_expr(column, Expr::value(moment))
        .filter(api_key::Column::Id.eq(id.to_string()))
        .exec(transaction)
        .await?;
    Ok(())
}

/// A foreign key guarantees that there is an account.
pub(super) fn name_of(account: Option<account::Model>) -> AccountName {
    AccountName::stored(account.map(|account| account.name).unwrap_or_default())
}
