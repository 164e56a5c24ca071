//! Refused requests in the database: the newest of the last 24 hours, for each account and cause.

use std::collections::BTreeSet;

use petstore_clock::UnixMillis;
use petstore_database::Session;
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::{Accounts, entity::refusal};
use crate::{
    accounts::{AccountId, Refusal, retention},
    errors::PetStoreError,
};

impl Accounts {
    /// Returns the newest refusal in each account of a request with this id, newest first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn refusals_of_request(&self, request_id: &str) -> Result<Vec<Refusal>, PetStoreError> {
        use refusal::Column as C;
        let newest = refusal::Entity::find()
            .select_only()
            .column_as(C::Id.max(), "id")
            .filter(C::RequestId.eq(request_id))
            .group_by(C::AccountId);
        let find = refusal::Entity::find()
            .filter(C::Id.in_subquery(newest.into_query()))
            .order_by_desc(C::RefusedAt)
            .limit(20); // clients may reuse an id
        let rows = self.database.all(find).await?;
        Ok(rows.into_iter().filter_map(refusal::Model::refusal).collect())
    }

    /// Returns the refusals of an account that are kept since a time, newest first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn refusals_of_account(
        &self,
        account: AccountId,
        since: UnixMillis,
    ) -> Result<Vec<Refusal>, PetStoreError> {
        let find = refusal::Entity::find()
            .filter(refusal::Column::AccountId.eq(account.0))
            .filter(refusal::Column::RefusedAt.gte(since.as_i64()));
        let rows = self.database.all(find).await?;
        let mut refusals: Vec<_> = rows.into_iter().filter_map(refusal::Model::refusal).collect();
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.at));
        Ok(refusals)
    }

    /// Deletes at most `batch` refusals that are too old or too many, and returns how many it deleted.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn forget_old_refusals(&self, now: UnixMillis, batch: u64) -> Result<u64, PetStoreError> {
        let too_old =
            Condition::all().add(refusal::Column::RefusedAt.lte(now.minus(retention::REFUSALS).as_i64()));
        match self.delete_oldest_refusals(too_old, batch).await? {
            0 => self.forget_surplus_refusals(retention::REFUSALS_IN_ALL, batch).await,
            deleted => Ok(deleted),
        }
    }

    /// Deletes refusals if there are more than `max` in all: of the account and cause that has most of them,
    /// or the oldest of all if none has ten.
    async fn forget_surplus_refusals(&self, max: u64, batch: u64) -> Result<u64, PetStoreError> {
        use refusal::Column as C;
        let kinds = refusal::Entity::find()
            .select_only()
            .columns([C::AccountId, C::Cause])
            .column_as(C::Id.count(), "refusals")
            .group_by(C::AccountId)
            .group_by(C::Cause);
        let kinds = self
            .database
            .read(move |db| Box::pin(kinds.clone().into_tuple::<(i64, i64, i64)>().all(db)))
            .await?;
        let all: i64 = kinds.iter().map(|(.., refusals)| refusals).sum();
        let surplus = u64::try_from(all).unwrap_or_default().saturating_sub(max);
        let Some((account, cause, most)) = kinds.into_iter().max_by_key(|(.., refusals)| *refusals) else {
            return Ok(0);
        };
        let surplus = surplus.min(batch);
        if most < 10 {
            return self.delete_oldest_refusals(Condition::all(), surplus).await;
        }
        let half = u64::try_from(most / 2).unwrap_or_default();
        let of_kind = Condition::all().add(C::AccountId.eq(account)).add(C::Cause.eq(cause));
        self.delete_oldest_refusals(of_kind, surplus.min(half)).await
    }

    async fn delete_oldest_refusals(&self, which: Condition, limit: u64) -> Result<u64, PetStoreError> {
        if limit == 0 {
            return Ok(0);
        }
        let oldest = refusal::Entity::find()
            .select_only()
            .column(refusal::Column::Id)
            .filter(which)
            .order_by_asc(refusal::Column::RefusedAt)
            .limit(limit);
        let delete =
            refusal::Entity::delete_many().filter(refusal::Column::Id.in_subquery(oldest.into_query()));
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move { Ok(delete.exec(transaction).await?.rows_affected) })
            })
            .await
    }
}

/// Adds refusals, and deletes the oldest of each account and cause that then has too many.
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
        let max =
            if account.is_some() { retention::REFUSALS_OF_ACCOUNT } else { retention::REFUSALS_OF_UNKNOWN };
        let of_kind = Condition::all()
            .add(C::AccountId.eq(account.map_or(0, |account| account.0)))
            .add(C::Cause.eq(i64::from(i32::from(cause))));
        let surplus = refusal::Entity::find()
            .select_only()
            .column(C::RefusedAt)
            .filter(of_kind.clone())
            .order_by_desc(C::RefusedAt)
            .offset(max);
        if let Some(last) = surplus.into_tuple::<i64>().one(transaction).await? {
            let too_many = of_kind.add(C::RefusedAt.lte(last));
            refusal::Entity::delete_many().filter(too_many).exec(transaction).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
