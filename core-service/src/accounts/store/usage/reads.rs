//! Reads of the counts: by day, by account and by minute.

use std::ops::Range;

use sea_orm::{
    EntityTrait, FromQueryResult, IdenStatic, QueryResult,
    sea_query::{CaseStatement, Expr, ExprTrait, IntoIden, Order, Query, SelectStatement},
};

use super::{Accounts, COUNTS, DayColumn, account, usage_day, usage_minute, usage_reporter};
use crate::{
    accounts::{
        AccountId, Day, KeyId, Minute, NO_ACCOUNT, Plan, RequestCounts, UsageMinute,
        store::entity::account::stored_plan,
    },
    errors::PetStoreError,
};

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
    /// The numbers of requests.
    pub counts: RequestCounts,
}

/// Number of a reporter's last report, in a row with a day.
const LAST_REPORT: &str = "reported";

impl Accounts {
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
    ) -> Result<(Vec<(Day, RequestCounts)>, i64), PetStoreError> {
        let last_report = Query::select()
            .column(usage_reporter::Column::LastReport)
            .from(usage_reporter::Entity)
            .and_where(Expr::col(usage_reporter::Column::Id).eq(reporter))
            .take();
        let mut query = sums(usage_day::Entity, DayColumn::Day, since.0, account);
        query.expr_as(last_report, LAST_REPORT).order_by(DayColumn::Day, Order::Asc);
        let (mut days, mut last_report) = (Vec::new(), 0);
        for row in self.database.rows(query).await? {
            let day = Day(row.try_get("", DayColumn::Day.as_str())?);
            days.push((day, RequestCounts::from_query_result(&row, "")?));
            last_report = row.try_get::<Option<i64>>("", LAST_REPORT)?.unwrap_or_default();
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
        use account::Column as A;
        let (after_account, day) = of.after.unwrap_or((NO_ACCOUNT, Day(i64::MAX)));
        let id = Expr::col((account::Entity, account::Column::Id));
        let [account_id, of_day] = [DayColumn::AccountId, DayColumn::Day].map(of_days).map(Expr::col);
        let mut query = Query::select();
        let of_account = if let Some(share) = of.used {
            // By the index of days. The accounts that are selected are sorted.
            query.from(usage_day::Entity).cross_join(account::Entity).and_where(has_used(share));
            Expr::val(0)
        } else {
            // In the order of the keys, so that nothing is sorted: a page costs at most a lookup per account,
            // even if few of them have days in the range. Bounds that depend on the account keep planners
            // from the index of days, by which they would sort all days of the range for each page.
            query.from(account::Entity).cross_join(usage_day::Entity);
            id.clone().mul(0)
        };
        query
            .columns([DayColumn::AccountId, DayColumn::Day].map(of_days))
            .columns(COUNTS.map(of_days))
            .columns([A::Name, A::Plan, A::PerMinute, A::PerDay].map(|column| (account::Entity, column)))
            .and_where(account_id.eq(id.clone()))
            .and_where(id.clone().gte(after_account.0))
            .and_where(id.gt(after_account.0).or(of_day.clone().gt(day.0)))
            .and_where(of_day.clone().gte(of_account.clone().add(of.days.start.0)))
            .and_where(of_day.lt(of_account.add(of.days.end.0)))
            .order_by((account::Entity, A::Id), Order::Asc)
            .order_by(of_days(DayColumn::Day), Order::Asc)
            .limit(max);
        let counted = |row: &QueryResult| {
            let plan: String = row.try_get("", A::Plan.as_str())?;
            let limits = [row.try_get("", A::PerMinute.as_str())?, row.try_get("", A::PerDay.as_str())?];
            Ok(AccountDay {
                account_id: AccountId(row.try_get("", DayColumn::AccountId.as_str())?),
                account: row.try_get("", A::Name.as_str())?,
                plan: stored_plan(&plan, limits)?,
                day: Day(row.try_get("", DayColumn::Day.as_str())?),
                counts: RequestCounts::from_query_result(row, "")?,
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
        use usage_minute::Column as M;
        let mut query = sums(usage_minute::Entity, M::Minute, since.0, of.account);
        query.order_by(M::Minute, Order::Desc).limit(max);
        if let Some(key_id) = of.key_id {
            query.and_where(Expr::col(M::KeyId).eq(key_id.to_string()));
        }
        if of.by_key {
            query.column(M::KeyId).group_by_col(M::KeyId).order_by(M::KeyId, Order::Desc);
        }
        let counted = |row: &QueryResult| -> Result<UsageMinute, PetStoreError> {
            let key_id: Option<String> = of.by_key.then(|| row.try_get("", M::KeyId.as_str())).transpose()?;
            Ok(UsageMinute {
                minute: Minute(row.try_get("", M::Minute.as_str())?),
                key_id: key_id.and_then(|id| id.parse().ok()).or(of.key_id),
                counts: RequestCounts::from_query_result(row, "")?,
            })
        };
        self.database.rows(query).await?.iter().rev().map(counted).collect()
    }
}

/// Returns the column of the table of days.
const fn of_days(column: DayColumn) -> (usage_day::Entity, DayColumn) {
    (usage_day::Entity, column)
}

/// Returns the condition that a day's requests are this share of the account's limit.
pub(super) fn has_used(share: UsedShare) -> Expr {
    let (used, limit) = used_and_limit();
    match share {
        UsedShare::NearLimit => used.mul(5).gte(limit.mul(4)),
        UsedShare::OverLimit => used.gt(limit),
    }
}

/// Returns a day's requests and the account's limit. Requests answered with 429 do not count against it
/// (docs/contract.md, 6.3).
pub(super) fn used_and_limit() -> (Expr, Expr) {
    let [succeeded, client_errors, _, server_errors, _] = COUNTS.map(of_days).map(Expr::col);
    let of_account = |column| Expr::col((account::Entity, column));
    let mut limit = CaseStatement::new();
    for name in Plan::NAMES {
        if let Ok(plan) = Plan::parse(name, None, None) {
            let per_day = i64::try_from(plan.quota().per_day).unwrap_or(i64::MAX / 4);
            limit = limit.case(of_account(account::Column::Plan).eq(name), per_day);
        }
    }
    let limit: Expr = limit.finally(of_account(account::Column::PerDay)).into();
    (succeeded.add(client_errors).add(server_errors), limit)
}

/// Returns the query for the sums of all counts by period, since a period.
fn sums(
    table: impl EntityTrait,
    period: impl IntoIden + Copy,
    since: i64,
    account: Option<AccountId>,
) -> SelectStatement {
    let mut query = Query::select();
    query.from(table).column(period).and_where(Expr::col(period).gte(since)).group_by_col(period);
    for column in COUNTS {
        query.expr_as(sum_of(Expr::col(column)), column.as_str());
    }
    if let Some(account) = account {
        query.and_where(Expr::col(DayColumn::AccountId).eq(account.0));
    }
    query
}

/// Returns the sum of counts. The sum of 64-bit integers is a decimal number on PostgreSQL, and is cast back.
pub fn sum_of(counts: Expr) -> Expr {
    counts.sum().cast_as("bigint")
}
