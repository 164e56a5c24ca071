//! Counts of requests in the database: by account and UTC day, and by account, key and minute, with those
//! that belong to no account; and counts of refusals by minute and cause.

mod reads;

use std::collections::{BTreeMap, BTreeSet};

use petstore_clock::UnixMillis;
use petstore_database::Session;
use petstore_telemetry::metrics::{IntCounter, counter};
use sea_orm::{
    ConnectionTrait, DbErr, EntityTrait, IdenStatic,
    sea_query::{Expr, ExprTrait, IntoIden, OnConflict, Query},
};

pub use self::reads::{AccountDay, DaysOf, MinutesOf, UsedShare, sum_of};
use self::reads::{has_used, used_and_limit};
use super::{
    Accounts,
    entity::{
        account,
        refusal_count::{self, Column as CountColumn},
        usage_day::{self, Column as DayColumn},
        usage_minute::{self, Column as MinuteColumn},
        usage_reporter::{self, Column as ReporterColumn},
    },
    refusals,
};
use crate::{
    accounts::{
        AccountId, Day, MAX_COUNT, Minute, NO_ACCOUNT, RefusalCount, RequestCounts, UsageMinute, UsageReport,
        retention,
    },
    errors::PetStoreError,
};

petstore_telemetry::metrics! {
    /// Metrics of usage. Clones share them.
    #[derive(Clone, Debug)]
    pub(super) struct UsageMetrics {
        overgranted: IntCounter = counter(
            "petstore_limit_overgranted_requests_total",
            "Requests beyond their account's limit per day, answered with other than 429.",
        ),
    }
}

/// The columns of counts, which days and minutes have, in the order of [`RequestCounts::columns`].
const COUNTS: [DayColumn; 5] = [
    DayColumn::Succeeded,
    DayColumn::ClientErrors,
    DayColumn::Refused,
    DayColumn::ServerErrors,
    DayColumn::GetPet,
];

impl Accounts {
    /// Adds a report to the counts, unless it was counted already. Both happen in one transaction, so that a
    /// report whose answer was lost can be sent again. Reports of several gateways change rows in one order,
    /// so that they cannot deadlock.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn record_usage(
        &self,
        reporter: &str,
        number: i64,
        report: UsageReport,
        now: UnixMillis,
    ) -> Result<(), PetStoreError> {
        let reporter = reporter.to_owned();
        let overgranted = self
            .database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let mut overgranted = 0;
                    if is_new(transaction, &reporter, number, now).await? {
                        let UsageReport { requests, refusals, refusal_counts } = report;
                        overgranted = add_requests(transaction, requests).await?;
                        add_refusals(transaction, refusal_counts).await?;
                        refusals::add(transaction, refusals).await?;
                        let (at, since) =
                            (ReporterColumn::ReportedAt, now.minus(retention::REPORTS).as_i64());
                        delete_before(transaction, usage_reporter::Entity, at, since).await?;
                        let first_kept = Day::containing(now).minus(retention::USAGE_DAYS - 1);
                        forget(transaction, usage_day::Entity, DayColumn::Day, first_kept.0).await?;
                    }
                    Ok::<_, PetStoreError>(overgranted)
                })
            })
            .await?;
        self.metrics.overgranted.inc_by(overgranted);
        Ok(())
    }

    /// Deletes counts by minute that are older than a day: a bounded number of the oldest minute. Returns the
    /// number of deleted rows.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn forget_old_minutes(&self, now: UnixMillis) -> Result<u64, PetStoreError> {
        let first = Minute::containing(now).minus(retention::USAGE_MINUTES).0;
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let refusals =
                        delete_before(transaction, refusal_count::Entity, CountColumn::Minute, first).await?;
                    let usage =
                        forget(transaction, usage_minute::Entity, MinuteColumn::Minute, first).await?;
                    Ok(refusals + usage)
                })
            })
            .await
    }
}

/// Stores the report's number, and returns `true` if it is new. The row's lock makes a repeated report wait
/// for the one that is in flight.
async fn is_new(transaction: &Session, reporter: &str, number: i64, now: UnixMillis) -> Result<bool, DbErr> {
    use ReporterColumn as C;
    let remember = Query::insert()
        .into_table(usage_reporter::Entity)
        .columns([C::Id, C::LastReport, C::ReportedAt])
        .values_panic([reporter.into(), number.into(), now.as_i64().into()])
        .on_conflict(
            OnConflict::column(C::Id)
                .update_columns([C::LastReport, C::ReportedAt])
                .action_and_where(Expr::col((usage_reporter::Entity, C::LastReport)).lt(number))
                .to_owned(),
        )
        .take();
    Ok(transaction.execute(&remember).await?.rows_affected() > 0)
}

/// Adds requests to their days, and to their minutes if the key is known or they belong to no account, which
/// is a row without a key. Returns the number of those that are beyond a limit per day.
async fn add_requests(transaction: &Session, rows: Vec<(AccountId, UsageMinute)>) -> Result<u64, DbErr> {
    let mut days = BTreeMap::<_, RequestCounts>::new();
    let mut minutes = BTreeMap::new();
    for (account, UsageMinute { minute, key_id, counts }) in rows {
        days.entry((account.0, minute.day().0)).or_default().add(counts);
        if key_id.is_some() || account == NO_ACCOUNT {
            let key_id = key_id.map(|id| id.to_string()).unwrap_or_default();
            minutes.insert((account.0, minute.0, key_id), counts);
        }
    }
    let rows = days.iter().map(|((account, day), counts)| {
        ([(*account).into(), (*day).into()], counts.columns().map(|count| Ord::min(count, MAX_COUNT)))
    });
    add_up(transaction, usage_day::Entity, [DayColumn::AccountId, DayColumn::Day], COUNTS, rows).await?;
    let minutes = minutes.into_iter().map(|((account, minute, key_id), counts)| {
        ([account.into(), minute.into(), key_id.into()], counts.columns())
    });
    add_up(
        transaction,
        usage_minute::Entity,
        [MinuteColumn::AccountId, MinuteColumn::Minute, MinuteColumn::KeyId],
        COUNTS,
        minutes,
    )
    .await?;
    overgranted(transaction, &days).await
}

/// Returns the number of these requests that are beyond the current limits of their accounts: what a day has
/// above the limit, up to what was added.
async fn overgranted(
    transaction: &Session,
    added: &BTreeMap<(i64, i64), RequestCounts>,
) -> Result<u64, DbErr> {
    let of_accounts = || added.keys().filter(|(account, _)| *account != NO_ACCOUNT.0);
    if of_accounts().next().is_none() {
        return Ok(0);
    }
    let id = Expr::col((account::Entity, account::Column::Id));
    let [account_id, day] =
        [DayColumn::AccountId, DayColumn::Day].map(|it| Expr::col((usage_day::Entity, it)));
    let (used, limit) = used_and_limit();
    let query = Query::select()
        .from(usage_day::Entity)
        .cross_join(account::Entity)
        .columns([DayColumn::AccountId, DayColumn::Day].map(|it| (usage_day::Entity, it)))
        .expr_as(used.sub(limit), "beyond")
        .and_where(account_id.clone().eq(id))
        .and_where(account_id.is_in(of_accounts().map(|(account, _)| *account)))
        .and_where(day.is_in(of_accounts().map(|(_, day)| *day).collect::<BTreeSet<_>>()))
        .and_where(has_used(UsedShare::OverLimit))
        .take();
    let mut total = 0;
    for row in transaction.query_all(&query).await? {
        // The query also finds other days of these accounts.
        let day =
            (row.try_get("", DayColumn::AccountId.as_str())?, row.try_get("", DayColumn::Day.as_str())?);
        let Some(counts) = added.get(&day) else { continue };
        let beyond: i64 = row.try_get("", "beyond")?;
        total += Ord::min(beyond, counts.admitted()).unsigned_abs(); // neither is negative
    }
    Ok(total)
}

async fn add_refusals(transaction: &Session, mut rows: Vec<RefusalCount>) -> Result<(), DbErr> {
    rows.sort_unstable_by_key(|count| (count.minute, count.cause));
    let rows = rows.into_iter().map(|RefusalCount { minute, cause, requests }| {
        ([minute.0.into(), i64::from(i32::from(cause)).into()], [requests])
    });
    add_up(
        transaction,
        refusal_count::Entity,
        [CountColumn::Minute, CountColumn::Cause],
        [CountColumn::Requests],
        rows,
    )
    .await
}

/// Inserts rows in their order, or adds to the counts of existing rows. A count stops at [`MAX_COUNT`]: a
/// larger one would not fit the column, or would become a fraction.
async fn add_up<C: IntoIden + Copy, D: IntoIden + Copy, const K: usize, const N: usize>(
    transaction: &Session,
    table: impl IntoIden + Copy,
    key: [C; K],
    counts: [D; N],
    rows: impl ExactSizeIterator<Item = ([Expr; K], [i64; N])>,
) -> Result<(), DbErr> {
    if rows.len() == 0 {
        return Ok(());
    }
    let sum = |column: D| {
        let (kept, more) = (Expr::col((table, column)), Expr::col(("excluded", column)));
        let is_most = kept.clone().gt(Expr::val(MAX_COUNT).sub(more.clone()));
        (column, Expr::case(is_most, MAX_COUNT).finally(kept.add(more)).into())
    };
    let mut insert = Query::insert();
    insert.into_table(table.into_iden());
    insert.columns(key.map(C::into_iden).into_iter().chain(counts.map(D::into_iden)));
    for (key, counts) in rows {
        insert.values_panic(key.into_iter().chain(counts.map(Expr::val)));
    }
    insert.on_conflict(OnConflict::columns(key).values(counts.map(sum)).to_owned());
    transaction.execute(&insert).await.map(drop)
}

/// Deletes the rows whose value in a column is smaller than this one. Returns their number.
async fn delete_before(
    transaction: &Session,
    table: impl EntityTrait,
    column: impl IntoIden,
    first_kept: i64,
) -> Result<u64, DbErr> {
    let old = Query::delete().from_table(table).and_where(Expr::col(column).lt(first_kept)).take();
    Ok(transaction.execute(&old).await?.rows_affected())
}

/// Deletes rows of the oldest period, if it is before the first one to keep: those of at most 1,000
/// accounts. Returns the number of deleted rows.
async fn forget(
    transaction: &Session,
    table: impl EntityTrait,
    period: impl IntoIden + Copy,
    first_kept: i64,
) -> Result<u64, DbErr> {
    let oldest = Query::select().from(table).expr_as(Expr::col(period).min(), "oldest").take();
    let oldest = transaction.query_all(&oldest).await?;
    let oldest = oldest.first().map(|row| row.try_get::<Option<i64>>("", "oldest")).transpose()?.flatten();
    let Some(oldest) = oldest.filter(|oldest| *oldest < first_kept) else { return Ok(0) };
    let of_oldest = Expr::col(period).eq(oldest);
    let accounts = Query::select()
        .from(table)
        .column(DayColumn::AccountId)
        .and_where(of_oldest.clone())
        .limit(1_000)
        .take();
    let delete = Query::delete()
        .from_table(table)
        .and_where(of_oldest)
        .and_where(Expr::col(DayColumn::AccountId).in_subquery(accounts))
        .take();
    Ok(transaction.execute(&delete).await?.rows_affected())
}

#[cfg(test)]
mod tests;
