//! API keys in the database.

use std::time::Duration;

use petstore_api_key::{ApiKey, Environment, KeyDigest};
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
use crate::domain::{Account, AccountError, AccountName, ApiKeyRecord, KeyId, KeyState, PetStoreError};

/// A key to be kept.
#[derive(Clone, Debug)]
pub(crate) struct NewApiKey {
    pub(crate) id: KeyId,
    pub(crate) digest: KeyDigest,
    pub(crate) environment: Environment,
    pub(crate) last_four: String,
    pub(crate) created_at: UnixMillis,
    pub(crate) expires_at: Option<UnixMillis>,
}

impl Store {
    /// Adds a key to an account.
    pub(crate) async fn insert_key(
        &self,
        account: &AccountName,
        key: NewApiKey,
    ) -> Result<ApiKeyRecord, AccountError> {
        let account = account.clone();
        self.transaction(move |transaction| {
            Box::pin(async move {
                let find = account::Entity::find().filter(account::Column::Name.eq(account.as_str()));
                let row = find.all(transaction).await?.pop();
                let row = row.ok_or(AccountError::AccountNotFound(account))?;
                touch(transaction, row.id).await?;
                insert(transaction, &row.try_into()?, key).await
            })
        })
        .await
    }

    /// The keys of one account, or of all, oldest first.
    pub(crate) async fn list_keys(
        &self,
        account: Option<&AccountName>,
    ) -> Result<Vec<ApiKeyRecord>, PetStoreError> {
        let mut find =
            api_key::Entity::find().find_also_related(account::Entity).order_by_asc(api_key::Column::Id);
        if let Some(account) = account {
            find = find.filter(account::Column::Name.eq(account.as_str()));
        }
        let rows = self.read(move |db| Box::pin(find.clone().all(db))).await?;
        rows.into_iter().map(|(row, account)| record(row, name_of(account))).collect()
    }

    /// The account that a key belongs to.
    pub(crate) async fn owner_of(&self, id: KeyId) -> Result<Account, AccountError> {
        let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
        let row = self.read(move |db| Box::pin(find.clone().all(db))).await?.pop();
        let owner = row.and_then(|(_, account)| account); // a foreign key guarantees that there is one
        Ok(owner.ok_or(AccountError::KeyNotFound(id))?.try_into()?)
    }

    /// Revokes a key; one that is revoked already stays as it is.
    pub(crate) async fn revoke_key(&self, id: KeyId, now: UnixMillis) -> Result<ApiKeyRecord, AccountError> {
        self.transaction(move |transaction| {
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

    /// Adds a key beside an active one, and lets the old one expire after `grace`, or before, if it was to.
    /// `issue` makes a key of the old one's environment.
    pub(crate) async fn rotate_key(
        &self,
        id: KeyId,
        now: UnixMillis,
        grace: Duration,
        environment: Option<Environment>,
        issue: impl FnOnce(Environment) -> (ApiKey, NewApiKey) + Send + 'static,
    ) -> Result<(ApiKeyRecord, ApiKey), AccountError> {
        self.transaction(move |transaction| {
            Box::pin(async move {
                let (row, account) = find(transaction, id).await?;
                let (account_id, old) = (row.account_id, record(row, account)?);
                if environment.is_some_and(|environment| environment != old.environment) {
                    return Err(AccountError::KeyOfAnotherEnvironment { id, environment: old.environment });
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
                let (key, new) = issue(old.environment);
                let row = key_row(account_id, new);
                let row = api_key::Entity::insert(row).exec_with_returning(transaction).await?;
                Ok((record(row, old.account)?, key))
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
