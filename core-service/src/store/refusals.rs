//! Requests that were refused, in the database: of the last 24 hours, the last ones of each account.

use std::{collections::BTreeSet, time::Duration};

use petstore_clock::UnixMillis;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::ExprTrait};

use super::{
    Session, Store,
    entity::{account::moment_column, refusal},
};
use crate::domain::{AccountId, PetStoreError, Refusal};

/// How long a refusal is kept.
pub(crate) const KEPT: Duration = Duration::from_hours(24);
/// How many are kept of one account for one cause: the last ones. So an account that is refused all the time
/// takes no place from others, and does not hide what else refused it.
const MOST_OF_ACCOUNT: u64 = 500;
/// How many are kept of requests without a valid key, for one cause.
const MOST_ANONYMOUS: u64 = 5_000;
/// How many are kept in all: about 40 MiB.
const MOST: u64 = 200_000;
/// How many rows of a request's name are told: clients may use one again.
const MOST_OF_REQUEST: u64 = 20;

/// The requests that were refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals<'a>(pub(super) &'a Store);

impl Refusals<'_> {
    /// The refusals of requests of that name, newest first.
    pub(crate) async fn of_request(self, request_id: &str) -> Result<Vec<Refusal>, PetStoreError> {
        let find = refusal::Entity::find()
            .filter(refusal::Column::RequestId.eq(request_id))
            .order_by_desc(refusal::Column::RefusedAt)
            .limit(MOST_OF_REQUEST);
        let rows = self.0.read(move |db| Box::pin(find.clone().all(db))).await?;
        Ok(rows.into_iter().filter_map(refusal::Model::refusal).collect())
    }

    /// The refusals of an account that are kept since a moment, newest first.
    pub(crate) async fn of_account(
        self,
        account: AccountId,
        since: UnixMillis,
    ) -> Result<Vec<Refusal>, PetStoreError> {
        let find = refusal::Entity::find()
            .filter(refusal::Column::AccountId.eq(account.0))
            .filter(refusal::Column::RefusedAt.gte(moment_column(since)));
        let rows = self.0.read(move |db| Box::pin(find.clone().all(db))).await?;
        let mut refusals: Vec<_> = rows.into_iter().filter_map(refusal::Model::refusal).collect();
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.at));
        Ok(refusals)
    }

    /// Forgets at most so many of those that are too old or too many, and says how many.
    pub(crate) async fn forget_old(self, now: UnixMillis, batch: u64) -> Result<u64, PetStoreError> {
        let too_old = moment_column(now.minus(KEPT));
        self.0
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let too_many = refusal::Entity::find()
                        .order_by_desc(refusal::Column::RefusedAt)
                        .offset(MOST)
                        .limit(1)
                        .all(transaction)
                        .await?;
                    let last = too_many.first().map_or(too_old, |row| std::cmp::max(row.refused_at, too_old));
                    let old = refusal::Entity::find()
                        .select_only()
                        .column(refusal::Column::Id)
                        .filter(refusal::Column::RefusedAt.lte(last))
                        .order_by_asc(refusal::Column::RefusedAt)
                        .limit(batch);
                    let old: Vec<i64> = old.into_tuple().all(transaction).await?;
                    if old.is_empty() {
                        return Ok(0);
                    }
                    let delete = refusal::Entity::delete_many().filter(refusal::Column::Id.is_in(old));
                    Ok(delete.exec(transaction).await?.rows_affected)
                })
            })
            .await
    }
}

/// Keeps refusals, and forgets those that the same accounts have too many of.
pub(super) async fn add(transaction: &Session, refusals: Vec<Refusal>) -> Result<(), DbErr> {
    use refusal::Column as C;
    if refusals.is_empty() {
        return Ok(());
    }
    let kinds: BTreeSet<_> = refusals.iter().map(|it| (it.account, it.cause)).collect();
    refusal::Entity::insert_many(refusals.into_iter().map(refusal::row))
        .exec_without_returning(transaction)
        .await?;
    for (account, cause) in kinds {
        let most = if account.is_some() { MOST_OF_ACCOUNT } else { MOST_ANONYMOUS };
        let of_kind = C::AccountId
            .eq(account.map_or(0, |account| account.0))
            .and(C::Cause.eq(i64::from(cause.number())));
        let surplus = refusal::Entity::find()
            .select_only()
            .column(C::RefusedAt)
            .filter(of_kind.clone())
            .order_by_desc(C::RefusedAt)
            .offset(most)
            .limit(1);
        let surplus: Vec<i64> = surplus.into_tuple().all(transaction).await?;
        if let Some(last) = surplus.first() {
            refusal::Entity::delete_many()
                .filter(of_kind.and(C::RefusedAt.lte(*last)))
                .exec(transaction)
                .await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
