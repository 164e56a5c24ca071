//! Counts of requests in the database: by account and UTC day, and by account, key and minute, with those
//! that belong to no account; and counts of refusals by minute and cause.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use petstore_clock::UnixMillis;
use petstore_database::Session;
use petstore_telemetry::metrics::{IntCounter, counter};
use sea_orm::{
    ConnectionTrait, DbErr, QueryResult,
    sea_query::{CaseStatement, Expr, ExprTrait, OnConflict, Order, Query, SelectStatement},
};

use super::{Accounts, entity::account::stored_plan, refusals};
use crate::{
    accounts::{
        AccountId, Day, KEPT, KeyId, MAX_COUNT, Minute, NO_ACCOUNT, Plan, RefusalCount, UsageMinute,
        UsageReport,
    },
    columns::moment_column,
    domain::PetStoreError,
};

petstore_telemetry::metrics! {
    /// Metrics of usage. Clones share them.
    #[derive(Clone, Debug)]
    pub(super) struct UsageMetrics {
        overgranted: IntCounter = counter(
            "petstore_limit_overgranted_requests_total",
            "Requests granted beyond their account's limit per day.",
        ),
    }
}

/// The columns of counts, in the order of [`UsageMinute::counts`].
const COUNTS: [&str; 5] = ["succeeded", "client_errors", "refused", "server_errors", "get_pet"];

/// Selection and grouping of the minutes to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinutesOf {
    /// Account to which the counts are limited, if any.
    pub account: Option<AccountId>,
    /// Key to which the counts are limited, if any.
    pub key_id: Option<KeyId>,
    /// `true` to count each key separately.
    pub by_key: bool,
}

/// Selection of the days of all accounts to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaysOf {
    /// The days.
    pub days: Range<Day>,
    /// Position after which to read; `None` to begin with the first account.
    pub after: Option<(AccountId, Day)>,
    /// Days to select by what the account used of its current limit per day; `None` for all.
    pub used: Option<UsedShare>,
}

/// Selection of days by the used part of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedShare {
    /// 80 % or more.
    NearLimit,
    /// More than the limit.
    OverLimit,
}

/// The requests of one account on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountDay {
    /// The account.
    pub account_id: AccountId,
    /// Current name of the account.
    pub account: String,
    /// Current plan of the account.
    pub plan: Plan,
    /// The day.
    pub day: Day,
    /// Counts in the order of [`UsageMinute::counts`].
    pub counts: [i64; 5],
}

impl Accounts {
    /// Adds a report to the counts, unless it was counted already. Both happen in one transaction, so that a
    /// report whose answer was lost can be sent again. Reports of several gateways change rows in one order,
    /// so that they cannot deadlock.
    pub(crate) async fn record_usage(
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
                        let silent_since = moment_column(now.minus(KEPT.reports));
                        delete_before(transaction, "usage_reporters", "reported_at", silent_since).await?;
                        let first_kept = Day::containing(now).minus(KEPT.usage_days - 1);
                        forget(transaction, "usage_days", "day", first_kept.0).await?;
                    }
                    Ok::<_, PetStoreError>(overgranted)
                })
            })
            .await?;
        self.metrics.overgranted.inc_by(overgranted);
        Ok(())
    }

    /// Returns the counts since a day, of one account or of all requests together, in ascending order of
    /// days. Days without requests are left out. Returns also the number of the reporter's last report that
    /// was counted; 0 if there was none, or there are no days. One statement reads both, so that they are
    /// consistent.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn usage_by_day(
        &self,
        account: Option<AccountId>,
        since: Day,
        reporter: &str,
    ) -> Result<(Vec<(Day, [i64; 5])>, i64), PetStoreError> {
        let last_report = Query::select()
            .column("last_report")
            .from("usage_reporters")
            .and_where(Expr::col("id").eq(reporter))
            .take();
        let mut query = sums("usage_days", "day", since.0, account);
        query.expr_as(last_report, "last_report").order_by("day", Order::Asc);
        let (mut days, mut last_report) = (Vec::new(), 0);
        for row in self.database.rows(query).await? {
            days.push((Day(row.try_get("", "day")?), stored_counts(&row)?));
            last_report = row.try_get::<Option<i64>>("", "last_report")?.unwrap_or_default();
        }
        Ok((days, last_report))
    }

    /// Returns the days with requests of every account, in ascending order of accounts and then of days, at
    /// most `max`. Requests that belong to no account are left out.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn usage_by_account(&self, of: DaysOf, max: u64) -> Result<Vec<AccountDay>, PetStoreError> {
        let (account, day) = of.after.unwrap_or((NO_ACCOUNT, Day(i64::MAX)));
        let [id, account_id, of_day] =
            [("accounts", "id"), ("usage_days", "account_id"), ("usage_days", "day")].map(Expr::col);
        let mut query = Query::select();
        let of_account = if let Some(share) = of.used {
            // By the index of days. The accounts that are selected are sorted.
            query.from("usage_days").cross_join("accounts").and_where(has_used(share));
            Expr::val(0)
        } else {
            // In the order of the keys, so that nothing is sorted: a page costs at most a lookup per account,
            // even if few of them have days in the range. Bounds that depend on the account keep planners
            // from the index of days, by which they would sort all days of the range for each page.
            query.from("accounts").cross_join("usage_days");
            id.clone().mul(0)
        };
        query
            .columns([("usage_days", "account_id"), ("usage_days", "day")])
            .columns(COUNTS.map(|column| ("usage_days", column)))
            .columns(["name", "plan", "per_minute", "per_day"].map(|column| ("accounts", column)))
            .and_where(account_id.eq(id.clone()))
            .and_where(id.clone().gte(account.0))
            .and_where(id.gt(account.0).or(of_day.clone().gt(day.0)))
            .and_where(of_day.clone().gte(of_account.clone().add(of.days.start.0)))
            .and_where(of_day.lt(of_account.add(of.days.end.0)))
            .order_by(("accounts", "id"), Order::Asc)
            .order_by(("usage_days", "day"), Order::Asc)
            .limit(max);
        let counted = |row: &QueryResult| {
            let plan: String = row.try_get("", "plan")?;
            Ok(AccountDay {
                account_id: AccountId(row.try_get("", "account_id")?),
                account: row.try_get("", "name")?,
                plan: stored_plan(&plan, row.try_get("", "per_minute")?, row.try_get("", "per_day")?)?,
                day: Day(row.try_get("", "day")?),
                counts: stored_counts(row)?,
            })
        };
        self.database.rows(query).await?.iter().map(counted).collect()
    }

    /// Returns the counts since a minute, in ascending order of minutes and then of keys. Minutes without
    /// requests are left out. If there are more than `max`, the last ones are returned.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn usage_by_minute(
        &self,
        of: MinutesOf,
        since: Minute,
        max: u64,
    ) -> Result<Vec<UsageMinute>, PetStoreError> {
        let mut query = sums("usage_minutes", "minute", since.0, of.account);
        query.order_by("minute", Order::Desc).limit(max);
        if let Some(key_id) = of.key_id {
            query.and_where(Expr::col("key_id").eq(key_id.to_string()));
        }
        if of.by_key {
            query.column("key_id").group_by_col("key_id").order_by("key_id", Order::Desc);
        }
        let counted = |row: &QueryResult| -> Result<UsageMinute, PetStoreError> {
            let key_id: Option<String> = of.by_key.then(|| row.try_get("", "key_id")).transpose()?;
            Ok(UsageMinute {
                minute: Minute(row.try_get("", "minute")?),
                key_id: key_id.and_then(|id| id.parse().ok()).or(of.key_id),
                counts: stored_counts(row)?,
            })
        };
        self.database.rows(query).await?.iter().rev().map(counted).collect()
    }

    /// Deletes counts by minute that are older than a day: a bounded number of the oldest minute. Returns the
    /// number of deleted rows.
    pub(crate) async fn forget_old_minutes(&self, now: UnixMillis) -> Result<u64, PetStoreError> {
        let first_kept = Minute::containing(now).minus(KEPT.usage_minutes);
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let refusals =
                        delete_before(transaction, "refusal_counts", "minute", first_kept.0).await?;
                    Ok(refusals + forget(transaction, "usage_minutes", "minute", first_kept.0).await?)
                })
            })
            .await
    }
}

/// Returns the condition that a day's requests are this share of the account's limit.
fn has_used(share: UsedShare) -> Expr {
    let (used, limit) = used_and_limit();
    match share {
        UsedShare::NearLimit => used.mul(5).gte(limit.mul(4)),
        UsedShare::OverLimit => used.gt(limit),
    }
}

/// Returns a day's requests and the account's limit. Requests answered with 429 do not count against it
/// (docs/contract.md, 6.3).
fn used_and_limit() -> (Expr, Expr) {
    let count = |column| Expr::col(("usage_days", column));
    let [succeeded, client_errors, _, server_errors, _] = COUNTS.map(count);
    let mut limit = CaseStatement::new();
    for name in Plan::NAMES {
        if let Ok(plan) = Plan::parse(name, None, None) {
            let per_day = i64::try_from(plan.quota().per_day).unwrap_or(i64::MAX / 4);
            limit = limit.case(Expr::col(("accounts", "plan")).eq(name), per_day);
        }
    }
    let limit: Expr = limit.finally(Expr::col(("accounts", "per_day"))).into();
    (succeeded.add(client_errors).add(server_errors), limit)
}

/// Returns the query for the sums of all counts by period, since a period.
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

/// Returns the sum of counts. The sum of 64-bit integers is a decimal number on PostgreSQL, and is cast back.
fn sum_of(counts: Expr) -> Expr {
    counts.sum().cast_as("bigint")
}

fn stored_counts(row: &QueryResult) -> Result<[i64; 5], DbErr> {
    let mut counts = [0; 5];
    for (count, column) in counts.iter_mut().zip(COUNTS) {
        *count = row.try_get("", column)?;
    }
    Ok(counts)
}

/// Stores the report's number, and returns `true` if it is new. The row's lock makes a repeated report wait
/// for the one that is in flight.
async fn is_new(transaction: &Session, reporter: &str, number: i64, now: UnixMillis) -> Result<bool, DbErr> {
    let remember = Query::insert()
        .into_table("usage_reporters")
        .columns(["id", "last_report", "reported_at"])
        .values_panic([reporter.into(), number.into(), moment_column(now).into()])
        .on_conflict(
            OnConflict::column("id")
                .update_columns(["last_report", "reported_at"])
                .action_and_where(Expr::col(("usage_reporters", "last_report")).lt(number))
                .to_owned(),
        )
        .take();
    Ok(transaction.execute(&remember).await?.rows_affected() > 0)
}

/// Adds requests to their days, and to their minutes if the key is known or they belong to no account, which
/// is a row without a key. Returns the number of those that were granted beyond a limit per day.
async fn add_requests(transaction: &Session, rows: Vec<(AccountId, UsageMinute)>) -> Result<u64, DbErr> {
    let mut days: BTreeMap<_, [i64; 5]> = BTreeMap::new();
    let mut minutes = BTreeMap::new();
    for (account, UsageMinute { minute, key_id, counts }) in rows {
        for (sum, more) in days.entry((account.0, minute.day().0)).or_default().iter_mut().zip(counts) {
            *sum = Ord::min(sum.saturating_add(more), MAX_COUNT);
        }
        if key_id.is_some() || account == NO_ACCOUNT {
            let key_id = key_id.map(|id| id.to_string()).unwrap_or_default();
            minutes.insert((account.0, minute.0, key_id), counts);
        }
    }
    let rows = days.iter().map(|((account, day), counts)| ([(*account).into(), (*day).into()], *counts));
    add_up(transaction, "usage_days", ["account_id", "day"], COUNTS, rows).await?;
    let minutes = minutes
        .into_iter()
        .map(|((account, minute, key_id), counts)| ([account.into(), minute.into(), key_id.into()], counts));
    add_up(transaction, "usage_minutes", ["account_id", "minute", "key_id"], COUNTS, minutes).await?;
    overgranted(transaction, &days).await
}

/// Returns the number of these requests that were granted beyond the current limits of their accounts: what a
/// day has above the limit, up to what was added.
async fn overgranted(transaction: &Session, added: &BTreeMap<(i64, i64), [i64; 5]>) -> Result<u64, DbErr> {
    let of_accounts = || added.keys().filter(|(account, _)| *account != NO_ACCOUNT.0);
    if of_accounts().next().is_none() {
        return Ok(0);
    }
    let [id, account_id, day] =
        [("accounts", "id"), ("usage_days", "account_id"), ("usage_days", "day")].map(Expr::col);
    let (used, limit) = used_and_limit();
    let query = Query::select()
        .from("usage_days")
        .cross_join("accounts")
        .columns([("usage_days", "account_id"), ("usage_days", "day")])
        .expr_as(used.sub(limit), "beyond")
        .and_where(account_id.clone().eq(id))
        .and_where(account_id.is_in(of_accounts().map(|(account, _)| *account)))
        .and_where(day.is_in(of_accounts().map(|(_, day)| *day).collect::<BTreeSet<_>>()))
        .and_where(has_used(UsedShare::OverLimit))
        .take();
    let mut total = 0;
    for row in transaction.query_all(&query).await? {
        let day = (row.try_get("", "account_id")?, row.try_get("", "day")?);
        let [succeeded, client_errors, _, server_errors, _] = added.get(&day).copied().unwrap_or_default();
        let beyond: i64 = row.try_get("", "beyond")?;
        let granted = succeeded + client_errors + server_errors; // bound: 3 * MAX_COUNT
        total += u64::try_from(Ord::min(beyond, granted)).unwrap_or_default();
    }
    Ok(total)
}

async fn add_refusals(transaction: &Session, mut rows: Vec<RefusalCount>) -> Result<(), DbErr> {
    rows.sort_unstable_by_key(|count| (count.minute, count.cause));
    let rows = rows.into_iter().map(|RefusalCount { minute, cause, requests }| {
        ([minute.0.into(), i64::from(i32::from(cause)).into()], [requests])
    });
    add_up(transaction, "refusal_counts", ["minute", "cause"], ["requests"], rows).await
}

/// Inserts rows in their order, or adds to the counts of existing rows. A count stops at [`MAX_COUNT`]: a
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
        let is_most = kept.clone().gt(Expr::val(MAX_COUNT).sub(more.clone()));
        (column, Expr::case(is_most, MAX_COUNT).finally(kept.add(more)).into())
    };
    let mut insert = Query::insert();
    insert.into_table(table).columns(key.into_iter().chain(counts));
    for (key, counts) in rows {
        insert.values_panic(key.into_iter().chain(counts.map(Expr::val)));
    }
    insert.on_conflict(OnConflict::columns(key).values(counts.map(sum)).to_owned());
    transaction.execute(&insert).await.map(drop)
}

/// Deletes the rows whose value in a column is smaller than this one. Returns their number.
async fn delete_before(
    transaction: &Session,
    table: &'static str,
    column: &'static str,
    first_kept: i64,
) -> Result<u64, DbErr> {
    let old = Query::delete().from_table(table).and_where(Expr::col(column).lt(first_kept)).take();
    Ok(transaction.execute(&old).await?.rows_affected())
}

/// Deletes rows of the oldest period, if it is before the first one to keep: those of at most 1,000
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
        Query::select().from(table).column("account_id").and_where(of_oldest.clone()).limit(1_000).take();
    let delete = Query::delete()
        .from_table(table)
        .and_where(of_oldest)
        .and_where(Expr::col("account_id").in_subquery(accounts))
        .take();
    Ok(transaction.execute(&delete).await?.rows_affected())
}

#[cfg(test)]
mod tests;
