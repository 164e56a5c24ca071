//! The order of changes to accounts and keys, which gateways follow.

use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter,
    sea_query::{Expr, ExprTrait, JoinType, Order, Query},
};

use super::{
    Session, Store,
    entity::{account, revision},
};
use crate::domain::{AccountId, PetStoreError};

/// The accounts that changed after a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedAccounts {
    /// The newest revision.
    pub(crate) revision: i64,
    /// Each account with its own revision, in ascending order of revisions.
    pub(crate) accounts: Vec<(AccountId, i64)>,
    /// `true` if more accounts changed than are listed.
    pub(crate) truncated: bool,
}

/// The changes of accounts and their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a>(pub(super) &'a Store);

impl Changes<'_> {
    /// Returns at most `limit` of the accounts that changed after `after`. One statement reads the list and
    /// the newest revision, so that they are consistent.
    pub(crate) async fn after(self, after: i64, limit: usize) -> Result<ChangedAccounts, PetStoreError> {
        let query = Query::select()
            .expr_as(Expr::col((revision::Entity, revision::Column::Value)), "revision")
            .expr_as(Expr::col((account::Entity, account::Column::Id)), "account_id")
            .expr_as(Expr::col((account::Entity, account::Column::Revision)), "account_revision")
            .from(revision::Entity)
            .join(
                JoinType::LeftJoin,
                account::Entity,
                Expr::col((account::Entity, account::Column::Revision)).gt(after),
            )
            .and_where(Expr::col((revision::Entity, revision::Column::Id)).eq(1))
            .order_by((account::Entity, account::Column::Revision), Order::Asc)
            .limit(limit as u64 + 1)
            .take();
        let rows = self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        let rows =
            rows.iter().map(|row| ChangeRow::from_query_result(row, "")).collect::<Result<Vec<_>, _>>()?;
        let revision = rows.first().ok_or_else(revision_missing)?.revision;
        let changed =
            rows.into_iter().filter_map(|row| Some((AccountId(row.account_id?), row.account_revision?)));
        let mut accounts: Vec<_> = changed.collect();
        // A revision from the future was seen before the store was restored from a backup. Nothing cached
        // since then is valid.
        let truncated = accounts.len() > limit || after > revision;
        accounts.truncate(limit);
        Ok(ChangedAccounts { revision, accounts, truncated })
    }
}

/// Records, in a transaction that changes an account or one of its keys, that the account changed. Returns
/// the revision of that change.
pub(super) async fn touch(transaction: &Session, account_id: i64) -> Result<i64, DbErr> {
    let revision = next_revision(transaction).await?;
    account::Entity::update_many()
        .col_expr(account::Column::Revision, Expr::value(revision))
        .filter(account::Column::Id.eq(account_id))
        .exec(transaction)
        .await?;
    Ok(revision)
}

/// Raises the revision in the transaction of the change itself. The row stays locked until the commit, so
/// revisions become visible in their order.
pub(super) async fn next_revision(transaction: &Session) -> Result<i64, DbErr> {
    let raised = revision::Entity::update_many()
        .col_expr(revision::Column::Value, Expr::col(revision::Column::Value).add(1))
        .filter(revision::Column::Id.eq(1))
        .exec_with_returning(transaction)
        .await?;
    raised.first().map(|row| row.value).ok_or(DbErr::RecordNotUpdated)
}

/// Returns the newest revision.
pub(super) async fn current_revision(transaction: &Session) -> Result<i64, DbErr> {
    let row = revision::Entity::find().filter(revision::Column::Id.eq(1)).all(transaction).await?.pop();
    row.map(|row| row.value).ok_or_else(|| DbErr::RecordNotFound("the revision".to_owned()))
}

pub(super) fn revision_missing() -> PetStoreError {
    PetStoreError::Bug("the revision counter is missing".into())
}

#[derive(FromQueryResult)]
struct ChangeRow {
    revision: i64,
    account_id: Option<i64>,
    account_revision: Option<i64>,
}
