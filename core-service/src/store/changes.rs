//! The order of changes to accounts and keys, which gateways follow.

use petstore_proto::internal::v1::{AccountChange, ListChangesResponse};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, QueryFilter,
    sea_query::{Expr, ExprTrait, JoinType, Order, Query},
};

use super::{
    Session, Store,
    entity::{account, revision},
};
use crate::domain::PetStoreError;

impl Store {
    /// Returns at most `limit` of the accounts that changed after `after`. One statement reads the list and
    /// the newest revision, so that they are consistent.
    pub(crate) async fn changes_after(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<ListChangesResponse, PetStoreError> {
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
        let rows = self.rows(query).await?;
        let revision = rows.first().ok_or_else(revision_missing)?.try_get("", "revision")?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            // A single row without an account says that none has changed.
            let account_id: Option<i64> = row.try_get("", "account_id")?;
            let changed_at: Option<i64> = row.try_get("", "account_revision")?;
            changes.extend(
                account_id
                    .zip(changed_at)
                    .map(|(account_id, revision)| AccountChange { account_id, revision }),
            );
        }
        // A revision from the future was seen before the store was restored from a backup. Nothing cached
        // since then is valid.
        let truncated = changes.len() > limit || after > revision;
        changes.truncate(limit);
        Ok(ListChangesResponse { revision, changes, truncated, ..ListChangesResponse::default() })
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
