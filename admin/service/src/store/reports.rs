//! Reports of usage that are for operators alone. The core counts what they read.

use petstore_clock::UnixMillis;
use petstore_core::accounts::{
    AccountId, Day, Minute, refusal_cause, refusal_code,
    store::entity::{
        account, refusal_count,
        usage_day::{self, Column as DayColumn},
        usage_minute::{self, Column as MinuteColumn},
    },
    store::sum_of,
};
use petstore_proto::admin::v1::{DeprecatedUse, DeprecatedUseBy as By, RefusalCount, RefusedAccount};
use sea_orm::{
    IdenStatic, QueryResult,
    sea_query::{Expr, ExprTrait, IntoIden, Order, Query, SelectStatement},
};

use super::AdminStore;
use crate::error::Result;

/// Name of an account.
const NAME: account::Column = account::Column::Name;

/// UTC days whose calls of a deprecated operation show the trend, including today: a week, since traffic
/// follows its days.
const RECENT_DAYS: i64 = 7;

impl AdminStore {
    /// Returns the number of requests that each cause refused since a minute, largest first.
    pub(crate) async fn refusals_by_cause(&self, since: Minute) -> Result<Vec<RefusalCount>> {
        use refusal_count::Column as C;
        let query = Query::select()
            .from(refusal_count::Entity)
            .column(C::Cause)
            .expr_as(sum_of(Expr::col(C::Requests)), "sum")
            .and_where(Expr::col(C::Minute).gte(since.0))
            .group_by_col(C::Cause)
            .order_by("sum", Order::Desc)
            .order_by(C::Cause, Order::Asc)
            .take();
        let mut refusals = Vec::new();
        for row in self.database.rows(query).await? {
            if let Some(cause) = refusal_cause(row.try_get("", C::Cause.as_str())?) {
                let (code, requests) = (refusal_code(cause).to_owned(), row.try_get("", "sum")?);
                refusals.push(RefusalCount { cause: cause.into(), code, requests });
            }
        }
        Ok(refusals)
    }

    /// Returns the accounts with most requests answered with 429 since a minute, most first, at most `max`.
    pub(crate) async fn most_refused(&self, since: Minute, max: u64) -> Result<Vec<RefusedAccount>> {
        let query = most_refused(since, max);
        let refused = |row: &QueryResult| -> Result<_> {
            Ok(RefusedAccount { account: row.try_get("", NAME.as_str())?, requests: row.try_get("", "sum")? })
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
                    used.account = row.try_get("", NAME.as_str())?;
                    used.recent_calls = Some(row.try_get("", "recent")?);
                }
                By::Day => used.start_time = Some(of_day(row.try_get("", DayColumn::Day.as_str())?)),
                By::Key => {
                    used.account = row.try_get("", NAME.as_str())?;
                    used.key_id = row.try_get("", MinuteColumn::KeyId.as_str())?;
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
        By::Key => (
            usage_minute::Entity.into_iden(),
            MinuteColumn::Minute.into_iden(),
            Minute::containing(now).minus(Minute::PER_DAY - 1).0,
        ),
        By::Unspecified | By::Account | By::Day => {
            (usage_day::Entity.into_iden(), DayColumn::Day.into_iden(), today.minus(days - 1).0)
        }
    };
    // Both tables have the columns of an account's counts.
    let count = |column: DayColumn| Expr::col((table.clone(), column));
    let requests = [DayColumn::ClientErrors, DayColumn::Refused, DayColumn::ServerErrors];
    let requests = requests.map(count).into_iter().fold(count(DayColumn::Succeeded), Expr::add);
    let at = || Expr::col((table.clone(), period.clone()));
    let used: Expr = Expr::case(count(DayColumn::GetPet).gt(0), at()).into();
    let of_account = Expr::col((account::Entity, account::Column::Id)).eq(count(DayColumn::AccountId));
    let mut query = Query::select();
    query
        .from(table.clone())
        .inner_join(account::Entity, of_account)
        .expr_as(sum_of(count(DayColumn::GetPet)), "sum")
        .expr_as(sum_of(requests), "requests")
        .expr_as(used.max(), "last")
        .and_where(at().gte(since))
        .limit(max as u64);
    if let Some(account) = account {
        query.and_where(count(DayColumn::AccountId).eq(account.0));
    } else {
        let callers = Query::select()
            .from(table.clone())
            .column(DayColumn::AccountId)
            .and_where(Expr::col(period.clone()).gte(since))
            .and_where(Expr::col(DayColumn::GetPet).gt(0))
            .take();
        query.and_where(count(DayColumn::AccountId).in_subquery(callers));
    }
    let by_name = |query: &mut SelectStatement| {
        query
            .column((account::Entity, NAME))
            .group_by_col((account::Entity, NAME))
            .order_by("sum", Order::Desc);
    };
    match by {
        By::Unspecified | By::Account => {
            let recent = Expr::case(at().gte(today.minus(RECENT_DAYS - 1).0), count(DayColumn::GetPet));
            query.expr_as(sum_of(recent.finally(0_i64).into()), "recent");
            by_name(&mut query);
            query.order_by((account::Entity, NAME), Order::Asc);
        }
        By::Day => {
            let day = || (usage_day::Entity, DayColumn::Day);
            query.column(day()).group_by_col(day()).order_by(day(), Order::Asc);
        }
        By::Key => {
            by_name(&mut query);
            let key = || (usage_minute::Entity, MinuteColumn::KeyId);
            query.column(key()).group_by_col(key()).order_by(key(), Order::Asc);
        }
    }
    query
}

/// Returns the query for the accounts with most requests answered with 429 since a minute: `name` and `sum`.
fn most_refused(since: Minute, max: u64) -> SelectStatement {
    let of_minutes = |column: MinuteColumn| Expr::col((usage_minute::Entity, column));
    let account_id = of_minutes(MinuteColumn::AccountId);
    Query::select()
        .from(usage_minute::Entity)
        .inner_join(account::Entity, Expr::col((account::Entity, account::Column::Id)).eq(account_id))
        .column((account::Entity, NAME))
        .expr_as(sum_of(of_minutes(MinuteColumn::Refused)), "sum")
        .and_where(of_minutes(MinuteColumn::Minute).gte(since.0))
        .and_where(of_minutes(MinuteColumn::Refused).gt(0))
        .group_by_col((account::Entity, NAME))
        .order_by("sum", Order::Desc)
        .order_by((account::Entity, NAME), Order::Asc)
        .limit(max)
        .take()
}
