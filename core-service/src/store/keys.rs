//! API keys in the database.

use futures_util::future::BoxFuture;
use std::time::Duration;

use petstore_api_key::{ApiKey, Environment};
use petstore_clock::UnixMillis;
use petstore_database::Session;
use sea_orm::{
    ActiveValue::{NotSet, Set},
    ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::Expr,
};

use super::{
    Store, accounts, audit,
    changes::touch,
    entity::{
        account,
        api_key::{self, record},
        moment_column,
    },
};
use crate::domain::{
    Account, AccountId, AccountName, Actor, ApiKeyRecord, Audited, Change, IssuedKey, KeyId, NewExpiry,
    PageSize, PetStoreError, Plan, Remark, Violation,
};

mod resolve;

impl Store {
    /// Creates a key for an account. Without `expires_at` it never expires.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Invalid`] if `expires_at` has passed, [`PetStoreError::AccountNotFound`], or the
    /// store's error.
    pub async fn create_key(
        &self,
        actor: &Actor,
        account: &AccountName,
        label: Option<Remark>,
        environment: Environment,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<IssuedKey, PetStoreError> {
        let (key, row) = issue(environment, label, expires_at, now)?;
        let (actor, account) = (actor.clone(), account.clone());
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let account = accounts::find(transaction, &account).await?;
                touch(transaction, account.id.0, now).await?;
                let record = insert(transaction, &actor, account, row, now).await?;
                Ok(IssuedKey { record, key })
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
    #[must_use]
    pub fn create_first_account<'a>(
        &'a self,
        key: &'a ApiKey,
        now: UnixMillis,
    ) -> BoxFuture<'a, Result<Option<ApiKeyRecord>, PetStoreError>> {
        Box::pin(async move {
            let (name, row) = (AccountName::parse("first")?, key_row(key, None, None, now));
            self.database
                .transaction(move |transaction| {
                    Box::pin(async move {
                        if !account::Entity::find().limit(1).all(transaction).await?.is_empty() {
                            return Ok(None);
                        }
                        let account =
                            accounts::insert(transaction, &Actor::LOCAL, &name, Plan::Free, now).await?;
                        insert(transaction, &Actor::LOCAL, account, row, now).await.map(Some)
                    })
                })
                .await
        })
    }

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
    pub(crate) async fn keys_of(&self, account: &Account) -> Result<Vec<ApiKeyRecord>, PetStoreError> {
        let find = api_key::Entity::find()
            .filter(api_key::Column::AccountId.eq(account.id.0))
            .order_by_asc(api_key::Column::Id);
        self.database.all(find).await?.into_iter().map(|row| record(row, account.name.clone())).collect()
    }

    /// Returns a page of keys after a position, of one account if it is given, newest first, with one more
    /// than the page has. The first page includes the total.
    pub(crate) async fn list_keys(
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
    pub(crate) async fn find_key(&self, id: KeyId) -> Result<ApiKeyRecord, PetStoreError> {
        let find = api_key::Entity::find_by_id(id.to_string()).find_also_related(account::Entity);
        let found = self.database.read(move |db| Box::pin(find.clone().all(db))).await?.pop();
        let (row, account) = found.ok_or(PetStoreError::KeyNotFound(id))?;
        record(row, name_of(account))
    }

    /// Revokes a key permanently. A key that is already revoked stays unchanged.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn revoke_key(
        &self,
        actor: &Actor,
        id: KeyId,
        now: UnixMillis,
    ) -> Result<ApiKeyRecord, PetStoreError> {
        let actor = actor.clone();
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let before = find(transaction, id).await?;
                if before.revoked_at.is_some() {
                    return Ok(before);
                }
                touch(transaction, before.account_id.0, now).await?;
                set_moment(transaction, id, api_key::Column::RevokedAt, now).await?;
                let after = ApiKeyRecord { revoked_at: Some(now), ..before.clone() };
                audit::change(transaction, &actor, now, "RevokeKey", Some(&before), &after).await?;
                Ok(after)
            })
        })
        .await
    }

    /// Creates a key of the same account, environment and label, which replaces another key. The old key
    /// expires after `grace`, and never later than it would have. If `environment` is given, a key of another
    /// environment is left unchanged. Returns the new key and the old one.
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
    ) -> Result<(IssuedKey, ApiKeyRecord), PetStoreError> {
        let actor = actor.clone();
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let old = find(transaction, id).await?;
                if environment.is_some_and(|environment| environment != old.environment) {
                    return Err(PetStoreError::KeyOfAnotherEnvironment { id, environment: old.environment });
                }
                old.check_active(now)?;
                touch(transaction, old.account_id.0, now).await?;
                let end = now.plus(grace);
                let end = old.expires_at.map_or(end, |expires_at| expires_at.min(end));
                set_moment(transaction, id, api_key::Column::ExpiresAt, end).await?;
                let created =
                    ApiKeyRecord { expires_at: audit::first_expiry(transaction, &old).await?, ..old.clone() };
                let (key, row) = issue(old.environment, old.label.clone(), expiry.of(&created, now), now)?;
                let row = api_key::ActiveModel { account_id: Set(old.account_id.0), ..row };
                let row = api_key::Entity::insert(row).exec_with_returning(transaction).await?;
                let new = record(row, old.account.clone())?;
                let expiring = ApiKeyRecord { expires_at: Some(end), ..old.clone() };
                let after = serde_json::json!({ "old": expiring.json(), "new": new.json() });
                let change = Change {
                    action: "RotateKey",
                    subject: old.subject(),
                    before: Some(old.json()),
                    after: Some(after),
                };
                audit::record(transaction, &actor, now, change).await?;
                Ok((IssuedKey { record: new, key }, expiring))
            })
        })
        .await
    }
}

/// Adds a key, in a transaction that has touched its account.
async fn insert(
    transaction: &Session,
    actor: &Actor,
    account: Account,
    row: api_key::ActiveModel,
    now: UnixMillis,
) -> Result<ApiKeyRecord, PetStoreError> {
    let row = api_key::ActiveModel { account_id: Set(account.id.0), ..row };
    let row = api_key::Entity::insert(row).exec_with_returning(transaction).await?;
    let record = record(row, account.name)?;
    audit::change(transaction, actor, now, "CreateKey", None, &record).await?;
    Ok(record)
}

/// Creates a key, and its row without an account. An expiry must be in the future.
fn issue(
    environment: Environment,
    label: Option<Remark>,
    expires_at: Option<UnixMillis>,
    now: UnixMillis,
) -> Result<(ApiKey, api_key::ActiveModel), Violation> {
    if expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Violation::new("expireTime", "must be in the future"));
    }
    let key = ApiKey::generate(environment);
    let row = key_row(&key, label, expires_at, now);
    Ok((key, row))
}

/// Returns the row of a new key, without an account.
fn key_row(
    key: &ApiKey,
    label: Option<Remark>,
    expires_at: Option<UnixMillis>,
    now: UnixMillis,
) -> api_key::ActiveModel {
    api_key::ActiveModel {
        id: Set(KeyId::generate(now).to_string()),
        account_id: NotSet,
        digest: Set(key.digest().0.to_vec()),
        prefix: Set(key.environment().key_prefix().to_owned()),
        last_four: Set(key.last_four().to_owned()),
        created_at: Set(moment_column(now)),
        expires_at: Set(expires_at.map(moment_column)),
        revoked_at: Set(None),
        last_used_at: Set(None),
        label: Set(label.map(|label| label.as_str().to_owned())),
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
