//! Reports of usage that are for operators alone. The core counts what they read.

use petstore_clock::UnixMillis;
use petstore_core::accounts::{AccountId, Day, Minute, refusal_cause, refusal_code};
use petstore_proto::admin::v1::{DeprecatedUse, DeprecatedUseBy as By, RefusalCount, RefusedAccount};
use sea_orm::{
    QueryResult,
    sea_query::{Expr, ExprTrait, Order, Query, SelectStatement},
};

use super::AdminStore;
use crate::error::Result;

/// UTC days whose calls of a deprecated operation show the trend, including today: a week, since traffic
/// follows its days.
const RECENT_DAYS: i64 = 7;

impl AdminStore {
    /// Returns the number of requests that each cause refused since a minute, largest first.
    pub(crate) async fn refusals_by_cause(&self, since: Minute) -> Result<Vec<RefusalCount>> {
        let query = Query::select()
            .from("refusal_counts")
            .column("cause")
            .expr_as(sum_of(Expr::col("requests")), "sum")
            .and_where(Expr::col("minute").gte(since.0))
            .group_by_col("cause")
            .order_by("sum", Order::Desc)
            .order_by("cause", Order::Asc)
            .take();
        let mut refusals = Vec::new();
        for row in self.database.rows(query).await? {
            if let Some(cause) = refusal_cause(row.try_get("", "cause")?) {
                let (code, requests) = (refusal_code(cause).to_owned(), row.try_get("", "sum")?);
                refusals.push(RefusalCount { cause: cause.into(), code, requests });
            }
        }
        Ok(refusals)
    }

    /// Returns the accounts with most requests answered with 429 since a minute, most first, at most `max`.
    pub(crate) async fn most_refused(&self, since: Minute, max: u64) -> Result<Vec<RefusedAccount>> {
        let query = most_of("usage_minutes", "minute", since.0, "refused", max);
        let refused = |row: &QueryResult| -> Result<_> {
            Ok(RefusedAccount { account: row.try_get("", "name")?, requests: row.try_get("", "sum")? })
        };
        self.database.rows(query).await?.iter().map(refused).collect()
    }

    /// Returns the use of the deprecated getPet within the last days or, by key, the last 24 hours: of one
    /// account, or of those that called it in this time. At most `max` rows.
    pub(crate) async fn deprecated_use(
        &self,
        by: By,
        account: Option<AccountId>,
        now: UnixMillis,
        days: i64,
        max: usize,
    ) -> Result<Vec<DeprecatedUse>> {
        let used = |row: &QueryResult| -> Result<_> {
            let (calls, requests): (i64, i64) = (row.try_get("", "sum")?, row.try_get("", "requests")?);
            let of_day = |day: i64| Day(day).start().to_timestamp();
            let last: Option<i64> = row.try_get("", "last")?;
            let mut used = DeprecatedUse {
                operation_id: "getPet".to_owned(),
                calls,
                last_day: last.map(of_day),
                other_requests: Some(requests - calls),
                ..Default::default()
            };
            match by {
                By::Unspecified | By::Account => {
                    used.account = row.try_get("", "name")?;
                    used.recent_calls = Some(row.try_get("", "recent")?);
                }
                By::Day => used.start_time = Some(of_day(row.try_get("", "day")?)),
                By::Key => {
                    used.account = row.try_get("", "name")?;
                    used.key_id = row.try_get("", "key_id")?;
                    used.last_day = last.map(|minute| of_day(Minute(minute).day().0));
                }
            }
            Ok(used)
        };
        self.database.rows(deprecated_use(by, account, now, days, max)).await?.iter().map(used).collect()
    }
}

/// Returns the query for the use of getPet: `sum`, all `requests`, and the `last` period with a call.
fn deprecated_use(
    by: By,
    account: Option<AccountId>,
    now: UnixMillis,
    days: i64,
    max: usize,
) -> SelectStatement {
    let today = Day::containing(now);
    let (table, period, since) = match by {
        By::Key => ("usage_minutes", "minute", Minute::containing(now).minus(Minute::PER_DAY - 1).0),
        By::Unspecified | By::Account | By::Day => ("usage_days", "day", today.minus(days - 1).0),
    };
    let count = |column: &'static str| Expr::col((table, column));
    let requests = ["client_errors", "refused", "server_errors"];
    let requests = requests.into_iter().fold(count("succeeded"), |sum, column| sum.add(count(column)));
    let used: Expr = Expr::case(count("get_pet").gt(0), count(period)).into();
    let mut query = Query::select();
    query
        .from(table)
        .inner_join("accounts", Expr::col(("accounts", "id")).equals((table, "account_id")))
        .expr_as(sum_of(count("get_pet")), "sum")
        .expr_as(sum_of(requests), "requests")
        .expr_as(used.max(), "last")
        .and_where(count(period).gte(since))
        .limit(max as u64);
    if let Some(account) = account {
        query.and_where(count("account_id").eq(account.0));
    } else {
        let callers = Query::select()
            .from(table)
            .column("account_id")
            .and_where(Expr::col(period).gte(since))
            .and_where(Expr::col("get_pet").gt(0))
            .take();
        query.and_where(count("account_id").in_subquery(callers));
    }
    let by_name = |query: &mut SelectStatement| {
        query.column(("accounts", "name")).group_by_col(("accounts", "name")).order_by("sum", Order::Desc);
    };
    match by {
        By::Unspecified | By::Account => {
            let recent = Expr::case(count("day").gte(today.minus(RECENT_DAYS - 1).0), count("get_pet"));
            query.expr_as(sum_of(recent.finally(0_i64).into()), "recent");
            by_name(&mut query);
            query.order_by(("accounts", "name"), Order::Asc);
        }
        By::Day => {
            query.column((table, "day")).group_by_col((table, "day")).order_by((table, "day"), Order::Asc);
        }
        By::Key => {
            by_name(&mut query);
            query.column((table, "key_id")).group_by_col((table, "key_id"));
            query.order_by((table, "key_id"), Order::Asc);
        }
    }
    query
}

/// Returns the query for the accounts that have most of one count since a period: `name` and `sum`.
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
