//! Usage of all accounts, by UTC day or month.

use std::{ops::Range, time::Duration};

use petstore_clock::{Day, UnixMillis};
use petstore_core::accounts::{
    AccountId,
    store::{AccountDay, DaysOf, UsedShare},
};
use petstore_proto::admin::v1::{
    AccountUsage, ListAccountUsageRequest, ListAccountUsageResponse, UsageInterval,
};

use super::{caller::Call, convert, usage::DAYS};
use crate::{domain::PageTokens, error::Result};

/// Number of days that can be listed, including today. One more is stored, which may be deleted before the
/// last page is read.
const MAX_DAYS: i64 = 89;
/// Maximum number of days in a month.
const MONTH_DAYS: u64 = 31;

pub(super) async fn list(call: Call, request: ListAccountUsageRequest) -> Result<ListAccountUsageResponse> {
    let ListAccountUsageRequest { interval, start_time, end_time, near_limit, over_limit, .. } = request;
    let tokens = PageTokens::new('u', &(interval, start_time, end_time, near_limit, over_limit));
    let (size, position) = convert::page(&tokens, request.page_size, &request.page_token, Position::parse)?;
    let is_by_month = match UsageInterval::try_from(interval) {
        Ok(UsageInterval::Unspecified | UsageInterval::Day) => false,
        Ok(UsageInterval::Month) => true,
        Ok(UsageInterval::Minute) | Err(_) => {
            return Err(convert::refuse("interval", "must be one of day, month"));
        }
    };
    let days = match &position {
        Some(position) => position.days.clone(), // that of the first page, even if a day has ended
        None => range(call.now, &request, is_by_month)?,
    };
    let after = position.map(|Position { last, .. }| last);
    let used =
        if over_limit { Some(UsedShare::OverLimit) } else { near_limit.then_some(UsedShare::NearLimit) };
    let of = DaysOf { days: days.clone(), after, used };
    let rows = size.get() as u64 + 1;
    let rows = if is_by_month {
        by_month(call.accounts().usage_by_account(of, rows * MONTH_DAYS).await?)
    } else {
        call.accounts().usage_by_account(of, rows).await?
    };
    let token =
        |last: &AccountDay| Position { days: days.clone(), last: (last.account_id, last.day) }.written();
    let (rows, next_page_token) = convert::cut(rows, size, &tokens, token);
    let start = |day: Day| if is_by_month { first_of_month(day) } else { day };
    Ok(ListAccountUsageResponse {
        usage: rows.into_iter().map(|row| account_usage(start(row.day), row)).collect(),
        next_page_token,
        start_time: Some(days.start.start().to_timestamp()),
        end_time: Some(days.end.start().to_timestamp()),
    })
}

/// Position of a page.
#[derive(Debug)]
struct Position {
    /// Range of all pages.
    days: Range<Day>,
    /// Last account and day of the page before.
    last: (AccountId, Day),
}

impl Position {
    fn parse(written: &str) -> Option<Self> {
        let numbers: Vec<i64> = written.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [start, end, account, day] = numbers[..] else { return None };
        Some(Self { days: Day(start)..Day(end), last: (AccountId(account), Day(day)) })
    }

    fn written(&self) -> String {
        let Self { days, last: (account, day) } = self;
        format!("{}.{}.{}.{}", days.start.0, days.end.0, account.0, day.0)
    }
}

/// Returns the days of all pages.
fn range(now: UnixMillis, request: &ListAccountUsageRequest, is_by_month: bool) -> Result<Range<Day>> {
    let today = Day::containing(now);
    let moment = |field, time: Option<_>| time.map(|time| convert::moment(field, time)).transpose();
    let start = moment("startTime", request.start_time)?.map(Day::containing);
    let last_moment = moment("endTime", request.end_time)?.map(|end| end.minus(Duration::from_millis(1)));
    let last = last_moment.map_or(today, Day::containing).min(today);
    let is_given = [("nearLimit", request.near_limit), ("overLimit", request.over_limit)];
    let of_today = is_given.into_iter().find_map(|(field, is_given)| is_given.then_some(field));
    if let Some(field) = of_today
        && (request.interval != 0 || start.is_some() || last_moment.is_some())
    {
        let rule = "is for the current day: it must not be given beside interval, startTime or endTime";
        return Err(convert::refuse(field, rule));
    }
    let oldest = today.minus(MAX_DAYS - 1);
    let (start, end) = if of_today.is_some() {
        (today, next(today))
    } else if is_by_month {
        let is_whole = first_of_month(oldest) == oldest;
        let oldest = if is_whole { oldest } else { next_month(oldest) };
        (start.map_or(oldest, first_of_month).max(oldest), next_month(last))
    } else {
        (start.unwrap_or(today.minus(DAYS - 1)).max(oldest), next(last))
    };
    Ok(start..end.max(start))
}

const fn next(day: Day) -> Day {
    day.minus(-1)
}

fn first_of_month(day: Day) -> Day {
    let date = day.to_string(); // such as 2026-11-20
    let of_month = date.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(1);
    day.minus(of_month - 1)
}

fn next_month(day: Day) -> Day {
    first_of_month(first_of_month(day).minus(-31))
}

/// Returns the sums of each account's days by month. Their day is the last of the month, so that the next
/// page does not return a month again whose later days were counted meanwhile.
fn by_month(mut days: Vec<AccountDay>) -> Vec<AccountDay> {
    let mut months: Vec<AccountDay> = Vec::new();
    for AccountDay { day, .. } in &mut days {
        *day = next_month(*day).minus(1);
    }
    for day in days {
        match months.last_mut().filter(|sum| (sum.account_id, sum.day) == (day.account_id, day.day)) {
            Some(sum) => {
                for (count, more) in sum.counts.iter_mut().zip(day.counts) {
                    *count = count.saturating_add(more);
                }
            }
            None => months.push(day),
        }
    }
    months
}

fn account_usage(start: Day, row: AccountDay) -> AccountUsage {
    AccountUsage {
        start_time: Some(start.start().to_timestamp()),
        account_id: row.account_id.0,
        plan: row.plan.number(),
        day_limit: i64::try_from(row.plan.quota().per_day).unwrap_or(i64::MAX),
        counts: Some(convert::counts(row.counts)),
        account: row.account,
    }
}
