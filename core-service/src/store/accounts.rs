//! Accounts in the database.

use petstore_api_key::ApiKey;
use petstore_clock::UnixMillis;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, sea_query::Expr};

use super::{
    Session, Store,
    changes::next_revision,
    entity::account::{self, moment_column},
    fault, keys,
};
use crate::domain::{Account, AccountError, AccountName, ApiKeyRecord, NewApiKey, Plan};

/// The name of the account that a new store begins with.
const FIRST_ACCOUNT: &str = "first";

/// The accounts of a store.
#[derive(Clone, Copy, Debug)]
pub struct Accounts<'a>(pub(super) &'a Store);

impl Accounts<'_> {
    /// Creates an account.
    ///
    /// # Errors
    ///
    /// [`AccountError::AccountExists`] if the name is taken, or the store's error.
    pub async fn create(
        self,
        name: &AccountName,
        plan: Plan,
        now: UnixMillis,
    ) -> Result<Account, AccountError> {
        let name = name.clone();
        self.0
            .transaction(move |transaction| {
                Box::pin(async move { insert(transaction, &name, plan, now).await })
            })
            .await
    }

    /// Creates account `first` on plan Free with this one key if there is no account yet, in one transaction:
    /// of several processes that start on a new store at once, one succeeds. The key is the caller's, so that
    /// it can be in safe keeping before the account exists: no crash leaves an account whose key nobody has.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn create_first(
        self,
        key: &ApiKey,
        now: UnixMillis,
    ) -> Result<Option<ApiKeyRecord>, AccountError> {
        let name = AccountName::parse(FIRST_ACCOUNT)?;
        let key = NewApiKey::new(key, None, now);
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    if !account::Entity::find().limit(1).all(transaction).await?.is_empty() {
                        return Ok(None);
                    }
                    let account = insert(transaction, &name, Plan::Free, key.created_at).await?;
                    keys::insert(transaction, &account, key).await.map(Some)
                })
            })
            .await
    }

    /// Every account, in the order of their names.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn list(self) -> Result<Vec<Account>, AccountError> {
        let rows = self.0.read(|db| Box::pin(account::Entity::find().all(db))).await?;
        let mut accounts = rows.into_iter().map(Account::try_from).collect::<Result<Vec<_>, _>>()?;
        // Sorted here, since the order of texts in PostgreSQL is a setting of the database.
        accounts.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        Ok(accounts)
    }

    /// The account of that name.
    ///
    /// # Errors
    ///
    /// [`AccountError::AccountNotFound`], or the store's error.
    pub async fn find(self, name: &AccountName) -> Result<Account, AccountError> {
        let find = account::Entity::find().filter(account::Column::Name.eq(name.as_str()));
        let row = self.0.read(move |db| Box::pin(find.clone().all(db))).await?.pop();
        Ok(row.ok_or_else(|| AccountError::AccountNotFound(name.clone()))?.try_into()?)
    }

    /// Puts an account on another plan, from its running windows on.
    ///
    /// # Errors
    ///
    /// [`AccountError::AccountNotFound`], or the store's error.
    pub async fn set_plan(self, name: &AccountName, plan: Plan) -> Result<Account, AccountError> {
        let name = name.clone();
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    let revision = next_revision(transaction).await?;
                    let (per_minute, per_day) = agreed_columns(plan);
                    let mut changed = account::Entity::update_many()
                        .col_expr(account::Column::Plan, Expr::value(plan.name()))
                        .col_expr(account::Column::PerMinute, Expr::value(per_minute))
                        .col_expr(account::Column::PerDay, Expr::value(per_day))
                        .col_expr(account::Column::Revision, Expr::value(revision))
                        .filter(account::Column::Name.eq(name.as_str()))
                        .exec_with_returning(transaction)
                        .await?;
                    let row = changed.pop().ok_or(AccountError::AccountNotFound(name))?;
                    Ok(row.try_into()?)
                })
            })
            .await
    }
}

async fn insert(
    transaction: &Session,
    name: &AccountName,
    plan: Plan,
    now: UnixMillis,
) -> Result<Account, AccountError> {
    let (per_minute, per_day) = agreed_columns(plan);
    let row = account::ActiveModel {
        name: Set(name.as_str().to_owned()),
        plan: Set(plan.name().to_owned()),
        per_minute: Set(per_minute),
        per_day: Set(per_day),
        created_at: Set(moment_column(now)),
        revision: Set(next_revision(transaction).await?),
        ..Default::default()
    };
    match account::Entity::insert(row).exec_with_returning(transaction).await {
        Ok(row) => Ok(row.try_into()?),
        Err(error) if fault::is_duplicate(&error) => Err(AccountError::AccountExists(name.clone())),
        Err(error) => Err(error.into()),
    }
}

fn agreed_columns(plan: Plan) -> (Option<i64>, Option<i64>) {
    // Bound: Plan::parse lets nothing larger than 10^9 through.
    let column = |number| i64::try_from(number).unwrap_or(i64::MAX);
    match plan.agreed() {
        Some(quota) => (Some(column(quota.per_minute)), Some(column(quota.per_day))),
        None => (None, None),
    }
}

#[cfg(test)]
mod tests;
