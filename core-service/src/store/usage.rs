//! Counts of requests in the database: by account and UTC day, and by account, key and minute; and counts of
//! refusals by minute and cause.

use std::{collections::BTreeMap, time::Duration};

use petstore_clock::UnixMillis;
use sea_orm::{
    ConnectionTrait, DbErr, QueryResult,
    sea_query::{Expr, ExprTrait, OnConflict, Order, Query, SelectStatement},
};

use super::{Session, Store, entity::account::moment_column, refusals};
use crate::domain::{
    AccountId, AccountName, Day, KeyId, Minute, PetStoreError, RefusalCause, RefusalCount, Tally, UsageDay,
    UsageMinute, UsageReport,
};

/// Number of days that are kept, including today.
const KEPT_DAYS: i64 = 90;
/// Maximum number of accounts whose old rows are deleted together.
const SWEEP: u64 = 1_000;
/// Time without a report after which a gateway's run is over, and the numbers of its reports are forgotten.
const REPORTER_MEMORY: Duration = Duration::from_hours(7 * 24);

const DAYS: &str = "usage_days";
const MINUTES: &str = "usage_minutes";
const REFUSALS: &str = "refusal_counts";
const REPORTERS: &str = "usage_reporters";

/// The columns of counts, in the order of [`Tally::counts`].
const COUNTS: [&str; 5] = ["succeeded", "client_errors", "refused", "server_errors", "get_pet"];

/// Counts by day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedDays {
    /// Days in ascending order. Days without requests are left out.
    pub(crate) days: Vec<UsageDay>,
    /// Number of the reporter's last report that was counted; 0 if none was, or `days` is empty.
    pub(crate) last_report: i64,
}

/// An account that called the deprecated getPet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeprecatedUse {
    pub(crate) account: AccountName,
    pub(crate) calls: i64,
    /// Last day with a call.
    pub(crate) last_day: Day,
}

/// Selection and grouping of the minutes to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinutesOf {
    /// Account to which the counts are limited, if any.
    pub(crate) account: Option<AccountId>,
    /// Key to which the counts are limited, if any.
    pub(crate) key_id: Option<KeyId>,
    /// `true` to count each key separately.
    pub(crate) by_key: bool,
}

/// The counts of a store.
#[derive(Clone, Copy, Debug)]
pub struct Usage<'a>(pub(super) &'a Store);

impl Usage<'_> {
    /// Adds a report to the counts, unless it was counted already. Both happen in one transaction, so that a
    /// report whose answer was lost can be sent again. Reports of several gateways change rows in one order,
    /// so that they cannot deadlock.
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
                        let UsageReport { requests, refusals, refusal_counts } = report;
                        add_requests(transaction, requests).await?;
                        add_refusals(transaction, refusal_counts).await?;
                        refusals::add(transaction, refusals).await?;
                        forget_runs(transaction, now).await?;
                        let first_kept = Day::containing(now).minus(KEPT_DAYS - 1);
                        forget(transaction, DAYS, "day", first_kept.0).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Returns the account's requests of the last `days` days, including today, in ascending order. Days
    /// without requests are left out. Answers of the last seconds may be missing: gateways report in batches.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn last_days(
        self,
        account: AccountId,
        days: u16,
        now: UnixMillis,
    ) -> Result<Vec<UsageDay>, PetStoreError> {
        let since = Day::containing(now).minus(i64::from(days) - 1);
        Ok(self.by_day(Some(account), since, "").await?.days)
    }

    /// Returns the counts since a day, of one account or of all together, and the number of the reporter's
    /// last report in them. One statement reads both, so that they are consistent.
    pub(crate) async fn by_day(
        self,
        account: Option<AccountId>,
        since: Day,
        reporter: &str,
    ) -> Result<CountedDays, PetStoreError> {
        let last_report = Query::select()
            .column("last_report")
            .from(REPORTERS)
            .and_where(Expr::col("id").eq(reporter))
            .take();
        let mut query = sums(DAYS, "day", since.0, account);
        query.expr_as(last_report, "last_report").order_by("day", Order::Asc);
        let mut counted = CountedDays::default();
        for row in self.rows(query).await? {
            counted.days.push(UsageDay { day: Day(row.try_get("", "day")?), tally: stored_tally(&row)? });
            counted.last_report = row.try_get::<Option<i64>>("", "last_report")?.unwrap_or_default();
        }
        Ok(counted)
    }

    /// Returns the counts since a minute, in ascending order of minutes and then of keys. Minutes without
    /// requests are left out. If there are more than `max`, the last ones are returned.
    pub(crate) async fn by_minute(
        self,
        of: MinutesOf,
        since: Minute,
        max: u64,
    ) -> Result<Vec<UsageMinute>, PetStoreError> {
        let mut query = sums(MINUTES, "minute", since.0, of.account);
        query.order_by("minute", Order::Desc).limit(max);
        if let Some(key_id) = of.key_id {
            query.and_where(Expr::col("key_id").eq(key_id.to_string()));
        }
        if of.by_key {
            query.column("key_id").group_by_col("key_id").order_by("key_id", Order::Desc);
        }
        let counted = |row: &QueryResult| -> Result<UsageMinute, PetStoreError> {
            let key_id = of.by_key.then(|| row.try_get::<String>("", "key_id")).transpose()?;
            Ok(UsageMinute {
                minute: Minute(row.try_get("", "minute")?),
                key_id: key_id.and_then(|id| id.parse().ok()).or(of.key_id),
                tally: stored_tally(row)?,
            })
        };
        self.rows(query).await?.iter().rev().map(counted).collect()
    }

    /// Returns the number of requests that each cause refused since a minute, largest first.
    pub(crate) async fn refusals_by_cause(
        self,
        since: Minute,
    ) -> Result<Vec<(RefusalCause, i64)>, PetStoreError> {
        let query = Query::select()
            .from(REFUSALS)
            .column("cause")
            .expr_as(sum_of(Expr::col("requests")), "sum")
            .and_where(Expr::col("minute").gte(since.0))
            .group_by_col("cause")
            .order_by("sum", Order::Desc)
            .order_by("cause", Order::Asc)
            .take();
        let mut refusals = Vec::new();
        for row in self.rows(query).await? {
            let cause = RefusalCause::from_number(row.try_get("", "cause")?);
            refusals.extend(cause.zip(Some(row.try_get("", "sum")?)));
        }
        Ok(refusals)
    }

    /// Returns the accounts with most requests answered with 429 since a minute, most first, at most `max`.
    pub(crate) async fn most_refused(
        self,
        since: Minute,
        max: u64,
    ) -> Result<Vec<(AccountName, i64)>, PetStoreError> {
        let query = most_of(MINUTES, "minute", since.0, "refused", max);
        let refused = |row: &QueryResult| -> Result<_, PetStoreError> {
            Ok((AccountName::stored(row.try_get("", "name")?), row.try_get("", "sum")?))
        };
        self.rows(query).await?.iter().map(refused).collect()
    }

    /// Returns the accounts that called the deprecated getPet since a day, most calls first, at most `max`.
    pub(crate) async fn deprecated_since(
        self,
        since: Day,
        max: u64,
    ) -> Result<Vec<DeprecatedUse>, PetStoreError> {
        let query = most_of(DAYS, "day", since.0, "get_pet", max);
        let used = |row: &QueryResult| -> Result<_, PetStoreError> {
            Ok(DeprecatedUse {
                account: AccountName::stored(row.try_get("", "name")?),
                calls: row.try_get("", "sum")?,
                last_day: Day(row.try_get("", "last")?),
            })
        };
        self.rows(query).await?.iter().map(used).collect()
    }

    /// Deletes counts by minute that are older than a day: a bounded number of the oldest minute. Returns the
    /// number of deleted rows.
    pub(crate) async fn forget_old_minutes(self, now: UnixMillis) -> Result<u64, PetStoreError> {
        let first_kept = Minute::containing(now).minus(Minute::KEPT);
        self.0
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let old = Query::delete()
                        .from_table(REFUSALS)
                        .and_where(Expr::col("minute").lt(first_kept.0))
                        .take();
                    let counts = transaction.execute(&old).await?.rows_affected();
                    Ok(counts + forget(transaction, MINUTES, "minute", first_kept.0).await?)
                })
            })
            .await
    }

    async fn rows(self, query: SelectStatement) -> Result<Vec<QueryResult>, PetStoreError> {
        self.0.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await
    }
}

/// Makes the query for the sums of all counts by period, since a period.
fn sums(
    table: &'static str,
    period: &'static str,
    since: i64,
    account: Option<AccountId>,
) -> SelectStatement {
    let mut query = Query::select();
    query.from(table).column(period).and_where(Expr::col(period).gte(since)).group_by_col(period);
    for column in COUNTS {
        query.expr_as(sum_of(Expr::col(column)), column);
    }
    if let Some(account) = account {
        query.and_where(Expr::col("account_id").eq(account.0));
    }
    query
}

/// Makes the query for the accounts that have most of one count since a period: `name`, `sum`, and the `last`
/// period with any.
fn most_of(
    table: &'static str,
    period: &'static str,
    since: i64,
    count: &'static str,
    max: u64,
) -> SelectStatement {
    Query::select()
        .from(table)
        .inner_join("accounts", Expr::col(("accounts", "id")).equals((table, "account_id")))
        .column(("accounts", "name"))
        .expr_as(sum_of(Expr::col((table, count))), "sum")
        .expr_as(Expr::col((table, period)).max(), "last")
        .and_where(Expr::col((table, period)).gte(since))
        .and_where(Expr::col((table, count)).gt(0))
        .group_by_col(("accounts", "name"))
        .order_by("sum", Order::Desc)
        .order_by(("accounts", "name"), Order::Asc)
        .limit(max)
        .take()
}

/// Returns the sum of counts. The sum of 64-bit integers is a decimal number on PostgreSQL, and is cast back.
fn sum_of(counts: Expr) -> Expr {
    counts.sum().cast_as("bigint")
}

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

/// Stores the report's number, and returns `true` if it is new. The row's lock makes a repeated report wait
/// for the one that is in flight.
async fn is_new(transaction: &Session, reporter: &str, number: i64, now: UnixMillis) -> Result<bool, DbErr> {
    let remember = Query::insert()
        .into_table(REPORTERS)
        .columns(["id", "last_report", "reported_at"])
        .values_panic([reporter.into(), number.into(), moment_column(now).into()])
        .on_conflict(
            OnConflict::column("id")
                .update_columns(["last_report", "reported_at"])
                .action_and_where(Expr::col((REPORTERS, "last_report")).lt(number))
                .to_owned(),
        )
        .take();
    Ok(transaction.execute(&remember).await?.rows_affected() > 0)
}

/// Adds requests to their days, and to their minutes if the key is known.
async fn add_requests(transaction: &Session, rows: Vec<(AccountId, UsageMinute)>) -> Result<(), DbErr> {
    let mut days: BTreeMap<_, Tally> = BTreeMap::new();
    let mut minutes = BTreeMap::new();
    for (account, UsageMinute { minute, key_id, tally }) in rows {
        let day = days.entry((account.0, minute.day().0)).or_default();
        *day = day.plus(tally);
        if let Some(key_id) = key_id {
            minutes.insert((account.0, minute.0, key_id), tally);
        }
    }
    let days = days.into_iter().map(|((account, day), it)| ([account.into(), day.into()], it.counts()));
    add_up(transaction, DAYS, ["account_id", "day"], COUNTS, days).await?;
    let minutes = minutes.into_iter().map(|((account, minute, key_id), it)| {
        ([account.into(), minute.into(), key_id.to_string().into()], it.counts())
    });
    add_up(transaction, MINUTES, ["account_id", "minute", "key_id"], COUNTS, minutes).await
}

async fn add_refusals(transaction: &Session, mut rows: Vec<RefusalCount>) -> Result<(), DbErr> {
    rows.sort_unstable_by_key(|count| (count.minute, count.cause));
    let rows = rows.into_iter().map(|RefusalCount { minute, cause, requests }| {
        ([minute.0.into(), i64::from(cause.number()).into()], [requests])
    });
    add_up(transaction, REFUSALS, ["minute", "cause"], ["requests"], rows).await
}

/// Inserts rows in their order, or adds to the counts of existing rows. A count stops at [`Tally::MAX`]: a
/// larger one would not fit the column, or would become a fraction.
async fn add_up<const K: usize, const N: usize>(
    transaction: &Session,
    table: &'static str,
    key: [&'static str; K],
    counts: [&'static str; N],
    rows: impl ExactSizeIterator<Item = ([Expr; K], [i64; N])>,
) -> Result<(), DbErr> {
    if rows.len() == 0 {
        return Ok(());
    }
    let sum = |column: &'static str| {
        let (kept, more) = (Expr::col((table, column)), Expr::col(("excluded", column)));
        let is_most = kept.clone().gt(Expr::val(Tally::MAX).sub(more.clone()));
        (column, Expr::case(is_most, Tally::MAX).finally(kept.add(more)).into())
    };
    let mut insert = Query::insert();
    insert.into_table(table).columns(key.into_iter().chain(counts));
    for (key, counts) in rows {
        insert.values_panic(key.into_iter().chain(counts.map(Expr::val)));
    }
    insert.on_conflict(OnConflict::columns(key).values(counts.map(sum)).to_owned());
    transaction.execute(&insert).await.map(drop)
}

async fn forget_runs(transaction: &Session, now: UnixMillis) -> Result<(), DbErr> {
    let silent_since = moment_column(now.minus(REPORTER_MEMORY));
    let over =
        Query::delete().from_table(REPORTERS).and_where(Expr::col("reported_at").lt(silent_since)).take();
    transaction.execute(&over).await.map(drop)
}

/// Deletes rows of the oldest period, if it is before the first one to keep: those of at most [`SWEEP`]
/// accounts. Returns the number of deleted rows.
async fn forget(
    transaction: &Session,
    table: &'static str,
    period: &'static str,
    first_kept: i64,
) -> Result<u64, DbErr> {
    let oldest = Query::select().from(table).expr_as(Expr::col(period).min(), "oldest").take();
    let oldest = transaction.query_all(&oldest).await?;
    let oldest = oldest.first().map(|row| row.try_get::<Option<i64>>("", "oldest")).transpose()?.flatten();
    let Some(oldest) = oldest.filter(|oldest| *oldest < first_kept) else { return Ok(0) };
    let of_oldest = Expr::col(period).eq(oldest);
    let accounts =
        Query::select().from(table).column("account_id").and_where(of_oldest.clone()).limit(SWEEP).take();
    let delete = Query::delete()
        .from_table(table)
        .and_where(of_oldest)
        .and_where(Expr::col("account_id").in_subquery(accounts))
        .take();
    Ok(transaction.execute(&delete).await?.rows_affected())
}

#[cfg(test)]
mod tests;
