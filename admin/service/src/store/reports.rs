//! Reports of usage that are for operators alone. The core counts what they read.

use petstore_core::accounts::{Day, Minute, refusal_cause, refusal_code};
use petstore_proto::admin::v1::{DeprecatedUse, RefusalCount, RefusedAccount};
use sea_orm::{
    QueryResult,
    sea_query::{Expr, ExprTrait, Order, Query, SelectStatement},
};

use super::AdminStore;
use crate::error::Result;

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

    /// Returns the accounts that called the deprecated getPet since a day, most calls first, at most `max`.
    pub(crate) async fn deprecated_use(&self, since: Day, max: u64) -> Result<Vec<DeprecatedUse>> {
        let query = most_of("usage_days", "day", since.0, "get_pet", max);
        let used = |row: &QueryResult| -> Result<_> {
            Ok(DeprecatedUse {
                account: row.try_get("", "name")?,
                operation_id: "getPet".to_owned(),
                calls: row.try_get("", "sum")?,
                last_day: Some(Day(row.try_get("", "last")?).start().to_timestamp()),
            })
        };
        self.database.rows(query).await?.iter().map(used).collect()
    }
}

/// Returns the query for the accounts that have most of one count since a period: `name`, `sum`, and the
/// `last` period with any.
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
