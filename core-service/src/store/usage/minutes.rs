//! Counts by minute and key, of the last 24 hours.

use petstore_clock::UnixMillis;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IdenStatic, QueryFilter, QueryOrder, QueryResult,
    QuerySelect,
    sea_query::{Expr, ExprTrait, JoinType, Order, Query},
};

use super::{COUNTS, SWEEP, Usage, adding_up, stored_tally, sum_of};
use crate::{
    domain::{AccountId, AccountName, KeyId, Minute, PetStoreError, RefusalCause, RefusalCount, UsageMinute},
    store::{
        Session,
        entity::{account, refusal_count, usage_minute},
    },
};

const TABLE: &str = "usage_minutes";

/// Whose minutes are told, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinutesOf {
    /// Only of this account.
    pub(crate) account: Option<AccountId>,
    /// Only of this key.
    pub(crate) key_id: Option<KeyId>,
    /// Each key by itself.
    pub(crate) by_key: bool,
}

impl Usage<'_> {
    /// The counts since a minute, ascending, and in a minute by key; minutes without requests are left out.
    /// The last ones, if there are more than `most`.
    pub(crate) async fn by_minute(
        self,
        of: MinutesOf,
        since: Minute,
        most: u64,
    ) -> Result<Vec<UsageMinute>, PetStoreError> {
        use usage_minute::Column as C;
        let mut query = Query::select();
        query
            .from(usage_minute::Entity)
            .column(C::Minute)
            .and_where(Expr::col(C::Minute).gte(since.0))
            .group_by_col(C::Minute)
            .order_by(C::Minute, Order::Desc)
            .limit(most);
        for column in COUNTS {
            query.expr_as(sum_of(column), column);
        }
        if let Some(account) = of.account {
            query.and_where(Expr::col(C::AccountId).eq(account.0));
        }
        if let Some(key_id) = of.key_id {
            query.and_where(Expr::col(C::KeyId).eq(key_id.to_string()));
        }
        if of.by_key {
            query.column(C::KeyId).group_by_col(C::KeyId).order_by(C::KeyId, Order::Desc);
        }
        let rows = self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        let counted = |row: &QueryResult| -> Result<UsageMinute, DbErr> {
            let key_id = of.by_key.then(|| row.try_get::<String>("", C::KeyId.as_str())).transpose()?;
            Ok(UsageMinute {
                minute: Minute(row.try_get("", C::Minute.as_str())?),
                key_id: key_id.and_then(|id| id.parse().ok()).or(of.key_id),
                tally: stored_tally(row)?,
            })
        };
        Ok(rows.iter().rev().map(counted).collect::<Result<_, _>>()?)
    }

    /// What refused requests since a minute: most requests first.
    pub(crate) async fn refusals_by_cause(
        self,
        since: Minute,
    ) -> Result<Vec<(RefusalCause, i64)>, PetStoreError> {
        use refusal_count::Column as C;
        let query = Query::select()
            .from(refusal_count::Entity)
            .column(C::Cause)
            .expr_as(sum_of(C::Requests.as_str()), "requests")
            .and_where(Expr::col(C::Minute).gte(since.0))
            .group_by_col(C::Cause)
            .order_by("requests", Order::Desc)
            .order_by(C::Cause, Order::Asc)
            .take();
        let rows = self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        let counted = |row: &QueryResult| -> Result<Option<(RefusalCause, i64)>, DbErr> {
            let cause = RefusalCause::from_number(row.try_get("", C::Cause.as_str())?);
            Ok(cause.zip(Some(row.try_get("", "requests")?)))
        };
        Ok(rows.iter().filter_map(|row| counted(row).transpose()).collect::<Result<_, _>>()?)
    }

    /// The accounts with most requests answered with 429 since a minute, most first, at most so many.
    pub(crate) async fn most_refused(
        self,
        since: Minute,
        most: u64,
    ) -> Result<Vec<(AccountName, i64)>, PetStoreError> {
        use usage_minute::Column as C;
        let query = Query::select()
            .from(usage_minute::Entity)
            .join(
                JoinType::InnerJoin,
                account::Entity,
                Expr::col((account::Entity, account::Column::Id))
                    .equals((usage_minute::Entity, C::AccountId)),
            )
            .column((account::Entity, account::Column::Name))
            .expr_as(sum_of(C::Refused.as_str()), "requests")
            .and_where(Expr::col((usage_minute::Entity, C::Minute)).gte(since.0))
            .and_where(Expr::col((usage_minute::Entity, C::Refused)).gt(0))
            .group_by_col((account::Entity, account::Column::Name))
            .order_by("requests", Order::Desc)
            .order_by((account::Entity, account::Column::Name), Order::Asc)
            .limit(most)
            .take();
        let rows = self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        let refused = |row: &QueryResult| -> Result<(AccountName, i64), DbErr> {
            Ok((AccountName::stored(row.try_get("", "name")?), row.try_get("", "requests")?))
        };
        Ok(rows.iter().map(refused).collect::<Result<_, _>>()?)
    }

    /// Forgets a bounded number of rows of the oldest minute that is older than a day, and says how many.
    pub(crate) async fn forget_old_minutes(self, now: UnixMillis) -> Result<u64, PetStoreError> {
        let oldest_kept = Minute::containing(now).minus(Minute::KEPT);
        self.0
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let counts = refusal_count::Entity::delete_many()
                        .filter(refusal_count::Column::Minute.lt(oldest_kept.0))
                        .exec(transaction)
                        .await?;
                    let old = usage_minute::Entity::find()
                        .filter(usage_minute::Column::Minute.lt(oldest_kept.0))
                        .order_by_asc(usage_minute::Column::Minute)
                        .limit(SWEEP)
                        .all(transaction)
                        .await?;
                    let Some(oldest) = old.first().map(|row| row.minute) else {
                        return Ok(counts.rows_affected);
                    };
                    let accounts = old.iter().filter(|row| row.minute == oldest).map(|row| row.account_id);
                    let deleted = usage_minute::Entity::delete_many()
                        .filter(usage_minute::Column::Minute.eq(oldest))
                        .filter(usage_minute::Column::AccountId.is_in(accounts))
                        .exec(transaction)
                        .await?;
                    Ok(deleted.rows_affected)
                })
            })
            .await
    }
}

/// Adds to the counts of keys.
pub(super) async fn add(transaction: &Session, mut rows: Vec<(AccountId, UsageMinute)>) -> Result<(), DbErr> {
    use usage_minute::Column as C;
    const KEY: [&str; 3] = ["account_id", "minute", "key_id"];
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_unstable_by_key(|(account, usage)| (*account, usage.minute, usage.key_id));
    let mut insert = Query::insert();
    insert.into_table(usage_minute::Entity);
    insert.columns([
        C::AccountId,
        C::Minute,
        C::KeyId,
        C::Succeeded,
        C::ClientErrors,
        C::Refused,
        C::ServerErrors,
        C::GetPet,
    ]);
    for (account, UsageMinute { minute, key_id, tally }) in rows {
        let key_id = key_id.map(|id| id.to_string()).unwrap_or_default();
        let key = [Expr::val(account.0), Expr::val(minute.0), Expr::val(key_id)];
        insert.values_panic(key.into_iter().chain(tally.counts().map(Expr::val)));
    }
    insert.on_conflict(adding_up(TABLE, &KEY, &COUNTS));
    transaction.execute(&insert).await.map(drop)
}

/// Adds to the counts of refusals.
pub(super) async fn add_refusals(transaction: &Session, mut rows: Vec<RefusalCount>) -> Result<(), DbErr> {
    use refusal_count::Column as C;
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_unstable_by_key(|count| (count.minute, count.cause));
    let mut insert = Query::insert();
    insert.into_table(refusal_count::Entity).columns([C::Minute, C::Cause, C::Requests]);
    for RefusalCount { minute, cause, requests } in rows {
        insert.values_panic([minute.0.into(), i64::from(cause.number()).into(), requests.into()]);
    }
    insert.on_conflict(adding_up("refusal_counts", &["minute", "cause"], &["requests"]));
    transaction.execute(&insert).await.map(drop)
}

#[cfg(test)]
mod tests;
