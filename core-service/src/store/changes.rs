//! The order of changes to accounts and keys, which gateways follow.

use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, QueryFilter,
    sea_query::{Expr, ExprTrait},
};

use super::{
    Session,
    entity::{account, revision},
};

/// Takes note, in a transaction that changes an account or one of its keys, that the account changed. The revision
/// of that change.
pub(super) async fn touch(transaction: &Session, account_id: i64) -> Result<i64, DbErr> {
    let revision = next_revision(transaction).await?;
    account::Entity::update_many()
        .col_expr(account::Column::Revision, Expr::value(revision))
        .filter(account::Column::Id.eq(account_id))
        .exec(transaction)
        .await?;
    Ok(revision)
}

/// Raises the revision in the transaction of the change itself: the row stays locked until that commit, so
/// revisions become visible in their order.
pub(super) async fn next_revision(transaction: &Session) -> Result<i64, DbErr> {
    let raised = revision::Entity::update_many()
        .col_expr(revision::Column::Value, Expr::col(revision::Column::Value).add(1))
        .filter(revision::Column::Id.eq(1))
        .exec_with_returning(transaction)
        .await?;
    raised.first().map(|row| row.value).ok_or(DbErr::RecordNotUpdated)
}

/// The newest revision.
pub(super) async fn current_revision(transaction: &Session) -> Result<i64, DbErr> {
    let row = revision::Entity::find().filter(revision::Column::Id.eq(1)).all(transaction).await?.pop();
    row.map(|row| row.value).ok_or_else(|| DbErr::RecordNotFound("the revision".to_owned()))
}
