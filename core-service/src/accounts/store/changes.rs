//! The order of changes to accounts and keys, which gateways follow.

use std::{collections::BTreeSet, sync::Arc};

use crate::errors::PetStoreError;
use parking_lot::Mutex;
use petstore_clock::UnixMillis;
use petstore_database::{Session, revision};
use petstore_proto::internal::v1::{AccountChange, ListChangesResponse};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{CaseStatement, Expr, ExprTrait},
};

use super::{Accounts, entity::account};

/// Revisions that this process has answered, at most the 1,000 newest.
///
/// A gateway's revision that is neither among them, nor the newest, nor that of an account may come from
/// before a restore of the store. Revisions never repeat (see [`next_revision`]), so they cannot be mistaken.
/// All are forgotten when the store does not answer, because it may be restored meanwhile.
pub(super) type Answered = Arc<Mutex<BTreeSet<i64>>>;

/// Returns `true` if `after` was answered, and adds the revision of the next answer.
fn was_answered(answered: &Answered, after: i64, newest: i64) -> bool {
    let mut answered = answered.lock();
    if answered.last().is_some_and(|last| *last > newest) {
        answered.clear(); // the store was restored
    }
    let has = answered.contains(&after);
    answered.insert(newest);
    if answered.len() > 1_000 {
        answered.pop_first();
    }
    has
}

impl Accounts {
    /// Returns at most `limit` of the accounts that changed after `after`. One statement reads the list and
    /// the newest revision, so that they are consistent.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn changes_after(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<ListChangesResponse, PetStoreError> {
        let mut find = revision::row()
            .select_also(account::Entity)
            .order_by_asc(account::Column::Revision)
            .limit(limit as u64 + 2); // the account of `after`, and one more than is listed
        QuerySelect::query(&mut find).left_join(account::Entity, account::Column::Revision.gte(after));
        let rows = self.database.read(move |db| Box::pin(find.clone().all(db)));
        let rows = rows.await.inspect_err(|_| self.answered.lock().clear())?;
        let revision = rows.first().ok_or_else(revision_missing)?.0.value;
        // A single row without an account says that none has changed since before `after`.
        let mut changes: Vec<_> = rows
            .into_iter()
            .filter_map(|(_, account)| account)
            .map(|row| AccountChange { account_id: row.id, revision: row.revision })
            .collect();
        // A revision that is not of this store, or from its future, was seen before the store was restored
        // from a backup. Nothing cached since then is valid.
        let of_account = changes.len();
        changes.retain(|change| change.revision > after);
        let is_known = was_answered(&self.answered, after, revision)
            || after == 0
            || after == revision
            || changes.len() < of_account;
        let truncated = changes.len() > limit || !is_known;
        changes.truncate(limit);
        Ok(ListChangesResponse { revision, changes, truncated, ..ListChangesResponse::default() })
    }
}

/// Records, in a transaction that changes an account or one of its keys, that the account changed. Returns
/// the revision of that change.
pub(super) async fn touch(transaction: &Session, account_id: i64, now: UnixMillis) -> Result<i64, DbErr> {
    let revision = next_revision(transaction, now).await?;
    account::Entity::update_many()
        .col_expr(account::Column::Revision, Expr::value(revision))
        .filter(account::Column::Id.eq(account_id))
        .exec(transaction)
        .await?;
    Ok(revision)
}

/// Raises the revision in the transaction of the change itself. The row stays locked until the commit, so
/// revisions become visible in their order.
///
/// It is the time in milliseconds, or the next number if that is higher. So a store that was restored from a
/// backup does not repeat the revisions of changes that were lost. Older releases count by one.
pub(super) async fn next_revision(transaction: &Session, now: UnixMillis) -> Result<i64, DbErr> {
    let (value, now) = (Expr::col(revision::Column::Value), now.as_i64());
    let next = CaseStatement::new().case(value.clone().lt(now), now).finally(value.add(1));
    let raised = revision::Entity::update_many()
        .col_expr(revision::Column::Value, next.into())
        .filter(revision::Column::Id.eq(1))
        .exec_with_returning(transaction)
        .await?;
    raised.first().map(|row| row.value).ok_or(DbErr::RecordNotUpdated)
}

/// Returns the newest revision.
pub(super) async fn current_revision(transaction: &Session) -> Result<i64, DbErr> {
    let row = revision::row().one(transaction).await?;
    row.map(|row| row.value).ok_or_else(|| DbErr::RecordNotFound("the revision".to_owned()))
}

pub(super) fn revision_missing() -> PetStoreError {
    PetStoreError::Bug("the revision counter is missing".into())
}
