//! Accounts in the database. Functions with a transaction change an account in it, for a program that records
//! who makes the change.

use futures_util::future::BoxFuture;
use petstore_clock::UnixMillis;
use petstore_database::{Session, fault};
use petstore_proto::AdminErrorReason;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, ExprTrait, Func, LikeExpr},
};

use super::{
    Accounts,
    changes::next_revision,
    entity::account::{self, Column},
};
use crate::{
    accounts::{Account, AccountId, AccountName, ListAccounts, Plan},
    errors::PetStoreError,
};

impl Accounts {
    /// Returns `true` if there is an account.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub fn has_accounts(&self) -> BoxFuture<'_, Result<bool, PetStoreError>> {
        Box::pin(async move { Ok(!self.database.all(account::Entity::find().limit(1)).await?.is_empty()) })
    }

    /// Returns a page of accounts, newest first, with one more than the page has. The first page includes the
    /// total after filtering.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn list_accounts(
        &self,
        list: ListAccounts,
    ) -> Result<(Vec<Account>, Option<i64>), PetStoreError> {
        let contains = list.name_contains.map(|part| {
            let escaped = part.to_lowercase().replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
            let like = LikeExpr::new(format!("%{escaped}%")).escape('\\');
            Expr::expr(Func::lower(Expr::col(Column::Name))).like(like)
        });
        let suspended = list.suspended.map(|is_suspended| {
            if is_suspended { Column::SuspendedAt.is_not_null() } else { Column::SuspendedAt.is_null() }
        });
        let filters = Condition::all()
            .add_option(contains)
            .add_option(list.plan.map(|plan| Column::Plan.eq(plan)))
            .add_option(suspended);
        let find = account::Entity::find().filter(filters);
        let after = list.after.map(|after| after.0);
        let (rows, total) = self.database.page(find, Column::Id, after, list.size.get()).await?;
        Ok((rows.into_iter().map(Account::try_from).collect::<Result<_, _>>()?, total))
    }

    /// Returns the account with this name.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::AccountNotFound`], or the store's error.
    pub async fn find_account(&self, name: &AccountName) -> Result<Account, PetStoreError> {
        let find = account::Entity::find().filter(Column::Name.eq(name.as_str()));
        let row = self.database.all(find).await?.pop();
        row.ok_or_else(|| PetStoreError::AccountNotFound(name.to_string()))?.try_into()
    }

    /// Returns the account with this identifier.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::NotFound`], or the store's error.
    pub async fn find_account_by_id(&self, id: AccountId) -> Result<Account, PetStoreError> {
        let find = account::Entity::find_by_id(id.0);
        let row = self.database.all(find).await?.pop();
        let code = AdminErrorReason::AccountNotFound.code();
        row.ok_or(PetStoreError::NotFound { code, id_field: "accountId", id: id.0 })?.try_into()
    }
}

/// Returns the account with this name, in a transaction.
pub(super) async fn find(transaction: &Session, name: &AccountName) -> Result<Account, PetStoreError> {
    let row = account::Entity::find().filter(Column::Name.eq(name.as_str())).one(transaction).await?;
    row.ok_or_else(|| PetStoreError::AccountNotFound(name.to_string()))?.try_into()
}

/// Returns `true` if there is an account, in a transaction.
///
/// # Errors
///
/// If the database fails.
pub async fn exist(transaction: &Session) -> Result<bool, PetStoreError> {
    Ok(!account::Entity::find().limit(1).all(transaction).await?.is_empty())
}

/// Adds an account, in a transaction.
///
/// # Errors
///
/// [`PetStoreError::AccountExists`] if the name is taken, or the store's error.
pub async fn insert(
    transaction: &Session,
    name: &AccountName,
    plan: Plan,
    now: UnixMillis,
) -> Result<Account, PetStoreError> {
    let created_at = Set(now.as_i64());
    let row = account::ActiveModel { created_at, ..row(name, plan, next_revision(transaction, now).await?) };
    let inserted = account::Entity::insert(row).exec_with_returning(transaction).await;
    inserted.map_err(|error| exists(error, name))?.try_into()
}

/// Replaces an account by the result of `change`, in a transaction. Does nothing if the account stays
/// unchanged. Returns the account before and after.
///
/// # Errors
///
/// [`PetStoreError::AccountNotFound`], [`PetStoreError::AccountExists`] if a new name is taken, the error of
/// `change`, or the store's.
pub async fn change(
    transaction: &Session,
    name: &AccountName,
    now: UnixMillis,
    change: impl FnOnce(Account) -> Result<Account, PetStoreError> + Send,
) -> Result<(Account, Account), PetStoreError> {
    let before = find(transaction, name).await?;
    let mut after = change(before.clone())?;
    if after != before {
        after.revision = next_revision(transaction, now).await?;
        replace(transaction, &after).await?;
    }
    Ok((before, after))
}

async fn replace(transaction: &Session, account: &Account) -> Result<(), PetStoreError> {
    let suspension = account.suspension.as_ref();
    let reason = suspension.and_then(|suspension| suspension.reason.as_ref());
    let row = account::ActiveModel {
        suspended_at: Set(suspension.map(|suspension| suspension.since.as_i64())),
        suspend_reason: Set(reason.map(|reason| reason.as_str().to_owned())),
        ..row(&account.name, account.plan, account.revision)
    };
    let update = account::Entity::update_many().set(row).filter(Column::Id.eq(account.id.0));
    update.exec(transaction).await.map(drop).map_err(|error| exists(error, &account.name))
}

/// Returns the columns that an insertion and an update have.
fn row(name: &AccountName, plan: Plan, revision: i64) -> account::ActiveModel {
    // Bound: Plan::parse accepts at most 10^9.
    let column = |number| i64::try_from(number).unwrap_or(i64::MAX);
    account::ActiveModel {
        name: Set(name.as_str().to_owned()),
        plan: Set(plan.name().to_owned()),
        per_minute: Set(plan.agreed().map(|quota| column(quota.per_minute))),
        per_day: Set(plan.agreed().map(|quota| column(quota.per_day))),
        revision: Set(revision),
        ..Default::default()
    }
}

/// Returns the error of a write that may have met another account with the name.
fn exists(error: DbErr, name: &AccountName) -> PetStoreError {
    if fault::is_duplicate(&error, "accounts_name_key") {
        PetStoreError::AccountExists(name.to_string())
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests;
