//! Counts of use in the database.

mod minutes;

use std::time::Duration;

use petstore_clock::UnixMillis;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QueryResult,
    QuerySelect,
    sea_query::{Expr, ExprTrait, JoinType, OnConflict, Order, Query},
};

pub(crate) use self::minutes::MinutesOf;
use super::{
    Session, Store,
    entity::{
        account::{self, moment_column},
        usage_day, usage_reporter,
    },
    refusals,
};
use crate::domain::{AccountId, AccountName, Day, PetStoreError, Tally, UsageDay, UsageReport};

/// How many days are kept, today included.
const KEPT_DAYS: i64 = 90;
/// How many rows one report forgets that are older; the next one goes on.
const SWEEP: u64 = 1_000;
/// After so long without a report a gateway's run is over: the numbers of its reports are forgotten.
const REPORTER_MEMORY: Duration = Duration::from_hours(7 * 24);

/// The columns of counts, in the order of [`Tally::counts`].
const COUNTS: [&str; 5] = ["succeeded", "client_errors", "refused", "server_errors", "get_pet"];

/// The counts of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountUsage {
    /// Ascending; days without requests are left out.
    pub(crate) days: Vec<UsageDay>,
    /// The number of the reporter's last report that was counted; 0 if there was none, or there are no days.
    pub(crate) last_report: i64,
}

/// An account that called the deprecated getPet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeprecatedUse {
    pub(crate) account: AccountName,
    pub(crate) calls: i64,
    /// The last day with a call.
    pub(crate) last_day: Day,
}

/// What the accounts of a store have used.
#[derive(Clone, Copy, Debug)]
pub struct Usage<'a>(pub(super) &'a Store);

impl Usage<'_> {
    /// Adds a report to the counts, unless it was counted already. Both in one transaction, so that a report
    /// whose answer was lost can be sent again. Reports of several gateways touch rows in the same order, so
    /// that none waits for another that waits for it.
    pub(crate) async fn record(
        self,
        reporter: &str,
        number: i64,
        report: UsageReport,
        now: UnixMillis,
    ) -> Result<(), PetStoreError> {
        let reporter = reporter.to_owned();
        self.0
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    if is_new(transaction, &reporter, number, now).await? {
                        let UsageReport { days, minutes, refusals, refusal_counts } = report;
                        add(transaction, days).await?;
                        minutes::add(transaction, minutes).await?;
                        minutes::add_refusals(transaction, refusal_counts).await?;
                        refusals::add(transaction, refusals).await?;
                        forget_what_is_old(transaction, now).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// The account's requests in the last days, today included, ascending; days without requests are left
    /// out. What was answered in the last seconds may be missing: gateways report in batches.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn last_days(
        self,
        account: AccountId,
        days: u16,
        now: UnixMillis,
    ) -> Result<Vec<UsageDay>, PetStoreError> {
        let since = Day::containing(now).minus(i64::from(days) - 1);
        Ok(self.since(account, since, "").await?.days)
    }

    /// The counts since a day, of one account or of all together, ascending; days without requests are left
    /// out.
    pub(crate) async fn by_day(
        self,
        account: Option<AccountId>,
        since: Day,
    ) -> Result<Vec<UsageDay>, PetStoreError> {
        use usage_day::Column as C;
        let mut query = Query::select();
        query
            .from(usage_day::Entity)
            .expr_as(Expr::val(0_i64).cast_as("bigint"), "account_id")
            .column(C::Day);
        for column in COUNTS {
            query.expr_as(sum_of(column), column);
        }
        query.and_where(Expr::col(C::Day).gte(since.0)).group_by_col(C::Day).order_by(C::Day, Order::Asc);
        if let Some(account) = account {
            query.and_where(Expr::col(C::AccountId).eq(account.0));
        }
        let rows = self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        rows.iter().map(|row| Ok(usage_day::Model::from_query_result(row, "")?.into())).collect()
    }

    /// Who called the deprecated getPet since a day: most calls first, at most so many accounts.
    pub(crate) async fn deprecated_since(
        self,
        since: Day,
        limit: u64,
    ) -> Result<Vec<DeprecatedUse>, PetStoreError> {
        use usage_day::Column as C;
        let query = Query::select()
            .from(usage_day::Entity)
            .join(
                JoinType::InnerJoin,
                account::Entity,
                Expr::col((account::Entity, account::Column::Id)).equals((usage_day::Entity, C::AccountId)),
            )
            .column((account::Entity, account::Column::Name))
            .expr_as(Expr::col((usage_day::Entity, C::GetPet)).sum().cast_as("bigint"), "calls")
            .expr_as(Expr::col((usage_day::Entity, C::Day)).max(), "last_day")
            .and_where(Expr::col((usage_day::Entity, C::Day)).gte(since.0))
            .and_where(Expr::col((usage_day::Entity, C::GetPet)).gt(0))
            .group_by_col((account::Entity, account::Column::Name))
            .order_by("calls", Order::Desc)
            .order_by((account::Entity, account::Column::Name), Order::Asc)
            .limit(limit)
            .take();
        let rows = self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        let used = |row: &QueryResult| -> Result<DeprecatedUse, DbErr> {
            Ok(DeprecatedUse {
                account: AccountName::stored(row.try_get("", "name")?),
                calls: row.try_get("", "calls")?,
                last_day: Day(row.try_get("", "last_day")?),
            })
        };
        Ok(rows.iter().map(used).collect::<Result<_, _>>()?)
    }

    /// The account's counts since a day, and how many of the reporter's reports are in them: one statement,
    /// so that the two belong together.
    pub(crate) async fn since(
        self,
        account: AccountId,
        since: Day,
        reporter: &str,
    ) -> Result<AccountUsage, PetStoreError> {
        use usage_day::Column as C;
        let last_report = Query::select()
            .column(usage_reporter::Column::LastReport)
            .from(usage_reporter::Entity)
            .and_where(Expr::col(usage_reporter::Column::Id).eq(reporter))
            .take();
        let query = Query::select()
            .columns([
                C::AccountId,
                C::Day,
                C::Succeeded,
                C::ClientErrors,
                C::Refused,
                C::ServerErrors,
                C::GetPet,
            ])
            .expr_as(last_report, "last_report")
            .from(usage_day::Entity)
            .and_where(Expr::col(C::AccountId).eq(account.0))
            .and_where(Expr::col(C::Day).gte(since.0))
            .order_by(C::Day, Order::Asc)
            .take();
        let mut usage = AccountUsage::default();
        for row in self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await? {
            usage.days.push(usage_day::Model::from_query_result(&row, "")?.into());
            usage.last_report = row.try_get::<Option<i64>>("", "last_report")?.unwrap_or_default();
        }
        Ok(usage)
    }
}

/// Takes note of the report's number, and whether it had not been seen. The row's lock lets a repeated report
/// wait for the one that is under way.
async fn is_new(transaction: &Session, reporter: &str, number: i64, now: UnixMillis) -> Result<bool, DbErr> {
    let remember = Query::insert()
        .into_table(usage_reporter::Entity)
        .columns([
            usage_reporter::Column::Id,
            usage_reporter::Column::LastReport,
            usage_reporter::Column::ReportedAt,
        ])
        .values_panic([reporter.into(), number.into(), moment_column(now).into()])
        .on_conflict(
            OnConflict::column(usage_reporter::Column::Id)
                .update_columns([usage_reporter::Column::LastReport, usage_reporter::Column::ReportedAt])
                .action_and_where(
                    Expr::col((usage_reporter::Entity, usage_reporter::Column::LastReport)).lt(number),
                )
                .to_owned(),
        )
        .take();
    Ok(transaction.execute(&remember).await?.rows_affected() > 0)
}

async fn add(transaction: &Session, mut rows: Vec<(AccountId, UsageDay)>) -> Result<(), DbErr> {
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_unstable_by_key(|(account, usage)| (*account, usage.day));
    let mut insert = Query::insert();
    insert.into_table(usage_day::Entity).columns(["account_id", "day"].into_iter().chain(COUNTS));
    for (account, UsageDay { day, tally }) in rows {
        insert.values_panic([account.0, day.0].into_iter().chain(tally.counts()).map(Expr::val));
    }
    insert.on_conflict(adding_up("usage_days", &["account_id", "day"], &COUNTS));
    transaction.execute(&insert).await.map(drop)
}

/// What an insertion does with rows that are there already: adds to their counts. It stops at the most that
/// is counted: one more would not fit the column, or the count would become a fraction.
fn adding_up(table: &'static str, key: &[&'static str], counts: &[&'static str]) -> OnConflict {
    let sum = |column: &'static str| {
        let (kept, more) = (Expr::col((table, column)), Expr::col(("excluded", column)));
        let is_most = kept.clone().gt(Expr::val(Tally::MAX).sub(more.clone()));
        (column, Expr::case(is_most, Tally::MAX).finally(kept.add(more)).into())
    };
    OnConflict::columns(key.iter().copied()).values(counts.iter().copied().map(sum)).to_owned()
}

/// The sum of a column of counts. Of 64-bit integers it is a decimal number on PostgreSQL, and fits again.
fn sum_of(column: &'static str) -> Expr {
    Expr::col(column).sum().cast_as("bigint")
}

/// The counts in a row.
fn stored_tally(row: &QueryResult) -> Result<Tally, DbErr> {
    let count = |column| row.try_get("", column);
    let [succeeded, client_errors, refused, server_errors, get_pet] = COUNTS;
    Ok(Tally {
        succeeded: count(succeeded)?,
        client_errors: count(client_errors)?,
        refused: count(refused)?,
        server_errors: count(server_errors)?,
        get_pet: count(get_pet)?,
    })
}

/// Forgets runs that are over, and a bounded number of rows of the oldest day that is too old.
async fn forget_what_is_old(transaction: &Session, now: UnixMillis) -> Result<(), DbErr> {
    let silent_since = moment_column(now.minus(REPORTER_MEMORY));
    usage_reporter::Entity::delete_many()
        .filter(usage_reporter::Column::ReportedAt.lt(silent_since))
        .exec(transaction)
        .await?;
    let old = usage_day::Entity::find()
        .filter(usage_day::Column::Day.lte(Day::containing(now).minus(KEPT_DAYS).0))
        .order_by_asc(usage_day::Column::Day)
        .limit(SWEEP)
        .all(transaction)
        .await?;
    let Some(oldest) = old.first().map(|row| row.day) else { return Ok(()) };
    let accounts = old.iter().filter(|row| row.day == oldest).map(|row| row.account_id);
    usage_day::Entity::delete_many()
        .filter(usage_day::Column::Day.eq(oldest))
        .filter(usage_day::Column::AccountId.is_in(accounts))
        .exec(transaction)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests;
