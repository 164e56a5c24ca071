//! Usage of accounts, the overview of all, and rehearsals of the removal of getPet.

use std::{collections::HashMap, ops::Range, time::Duration};

use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        AccountId, Day, Minute, UsageMinute,
        store::{
            AccountDay, DaysOf, MinutesOf, UsedShare,
            brownouts::{self, Brownout},
        },
    },
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{
    self as pb, AccountUsage, CancelBrownoutRequest, CancelBrownoutResponse, CreateBrownoutRequest,
    CreateBrownoutResponse, GetOverviewRequest, GetOverviewResponse, GetUsageRequest, GetUsageResponse,
    ListAccountUsageRequest, ListAccountUsageResponse, ListBrownoutsRequest, ListBrownoutsResponse,
    ListDeprecatedUseRequest, ListDeprecatedUseResponse, UsageInterval,
};

use super::{caller::Call, convert};
use crate::{
    domain::{Audited, PageTokens},
    error::Result,
};

/// Default number of minutes.
const MINUTES: i64 = 60;
/// Maximum number of periods in an answer. With the longest names they fill a message.
const MAX_PERIODS: u64 = 1_440;
/// Maximum number of rows in a report of deprecated calls.
const MAX_USES: usize = 1_000;
/// Default number of days.
const DAYS: i64 = 30;

pub(super) async fn get_usage(call: Call, request: GetUsageRequest) -> Result<GetUsageResponse> {
    let interval = UsageInterval::try_from(request.interval);
    let account = call.account_id(&request.account).await?;
    let start = request.start_time.map(|start| convert::moment("startTime", start)).transpose()?;
    let periods = match interval {
        Ok(UsageInterval::Minute) => {
            let since = start.map_or(Minute::containing(call.now).minus(MINUTES - 1), Minute::containing);
            minutes(&call, account, since, request).await?
        }
        Ok(UsageInterval::Day | UsageInterval::Unspecified) => {
            for (is_given, field) in [(!request.key_id.is_empty(), "keyId"), (request.by_key, "byKey")] {
                if is_given {
                    return Err(convert::refuse(field, "is for minutes only: days are counted by account"));
                }
            }
            let since = start.map_or(Day::containing(call.now).minus(DAYS - 1), Day::containing);
            let (days, _) = call.accounts().usage_by_day(account, since, "").await?;
            let period =
                |(day, counts): (Day, _)| convert::period(day.start(), &request.account, None, counts);
            days.into_iter().map(period).collect()
        }
        Ok(UsageInterval::Month) | Err(_) => {
            return Err(convert::refuse("interval", "must be one of minute, day"));
        }
    };
    Ok(GetUsageResponse { periods })
}

async fn minutes(
    call: &Call,
    mut account: Option<AccountId>,
    since: Minute,
    request: GetUsageRequest,
) -> Result<Vec<pb::UsagePeriod>> {
    let GetUsageRequest { account: mut name, key_id, by_key, .. } = request;
    if by_key && account.is_none() {
        return Err(convert::refuse("byKey", "needs an account"));
    }
    let key_id = Some(key_id).filter(|id| !id.is_empty()).map(|id| convert::key_id(&id)).transpose()?;
    if let Some(key_id) = key_id {
        let key = call.accounts().find_key(key_id).await?;
        if account.is_some_and(|account| account != key.account_id) {
            return Err(PetStoreError::KeyNotFound(key_id.to_string()).into());
        }
        (name, account) = (key.account.to_string(), Some(key.account_id));
    }
    let of = MinutesOf { account, key_id, by_key };
    let minutes = call.accounts().usage_by_minute(of, since, MAX_PERIODS).await?;
    let period = |it: UsageMinute| convert::period(it.minute.start(), &name, it.key_id, it.counts);
    Ok(minutes.into_iter().map(period).collect())
}

/// Returns the last minutes, including those without requests, and the causes of refusals in them.
pub(super) async fn get_overview(call: Call, request: GetOverviewRequest) -> Result<GetOverviewResponse> {
    let minutes = match i64::from(request.minutes) {
        0 => MINUTES,
        minutes @ 1..=Minute::PER_DAY => minutes,
        _ => return Err(convert::refuse("minutes", "must be from 1 to 1440")),
    };
    let last = Minute::containing(call.now);
    let first = last.minus(minutes - 1);
    // Gateways may report between two of these reads. The counts are read last, so that they are never older
    // than the refusals among them.
    let refusals = call.store.refusals_by_cause(first).await?;
    let refused_accounts = call.store.most_refused(first, 10).await?;
    let counted = call.accounts().usage_by_minute(MinutesOf::default(), first, MAX_PERIODS).await?;
    let counted: HashMap<_, _> = counted.into_iter().map(|it| (it.minute, it.counts)).collect();
    let of_minute = |number| {
        let minute = Minute(number);
        convert::period(minute.start(), "", None, counted.get(&minute).copied().unwrap_or_default())
    };
    Ok(GetOverviewResponse {
        minutes: (first.0..=last.0).map(of_minute).collect(),
        refusals,
        refused_accounts,
    })
}

pub(super) async fn list_deprecated_use(
    call: Call,
    request: ListDeprecatedUseRequest,
) -> Result<ListDeprecatedUseResponse> {
    let days = match i64::from(request.days) {
        0 => DAYS,
        days @ 1..=90 => days, // as many are stored
        _ => return Err(convert::refuse("days", "must be from 1 to 90")),
    };
    let by = pb::DeprecatedUseBy::try_from(request.by)
        .map_err(|_| convert::refuse("by", "must be one of account, day, key"))?;
    let account = call.account_id(&request.account).await?;
    if by == pb::DeprecatedUseBy::Key && account.is_none() {
        return Err(convert::refuse("by", "needs an account if it is key"));
    }
    if by == pb::DeprecatedUseBy::Key && request.days != 0 {
        return Err(convert::refuse("days", "is not for keys: they are counted for 24 hours"));
    }
    let mut uses = call.store.deprecated_use(by, account, call.now, days, MAX_USES + 1).await?;
    let has_more = uses.len() > MAX_USES;
    uses.truncate(MAX_USES);
    for day in uses.iter_mut().filter(|used| used.start_time.is_some()) {
        day.account.clone_from(&request.account);
    }
    Ok(ListDeprecatedUseResponse { uses, has_more })
}

/// Number of days that can be listed, including today. One more is stored, which may be deleted before the
/// last page is read.
const MAX_DAYS: i64 = 89;
/// Maximum number of days in a month.
const MONTH_DAYS: u64 = 31;

pub(super) async fn list_account_usage(
    call: Call,
    request: ListAccountUsageRequest,
) -> Result<ListAccountUsageResponse> {
    let ListAccountUsageRequest { interval, start_time, end_time, near_limit, over_limit, .. } = request;
    let tokens = PageTokens::new('u', &(interval, start_time, end_time, near_limit, over_limit));
    let (size, position) = convert::page(&tokens, request.page_size, &request.page_token, parse_position)?;
    let is_by_month = match UsageInterval::try_from(interval) {
        Ok(UsageInterval::Unspecified | UsageInterval::Day) => false,
        Ok(UsageInterval::Month) => true,
        Ok(UsageInterval::Minute) | Err(_) => {
            return Err(convert::refuse("interval", "must be one of day, month"));
        }
    };
    let (days, after) = match position {
        Some((days, last)) => (days, Some(last)), // that of the first page, even if a day has ended
        None => (range(call.now, &request, is_by_month)?, None),
    };
    let used =
        if over_limit { Some(UsedShare::OverLimit) } else { near_limit.then_some(UsedShare::NearLimit) };
    let of = DaysOf { days: days.clone(), after, used };
    let limit = (size.get() as u64 + 1) * if is_by_month { MONTH_DAYS } else { 1 };
    let rows = call.accounts().usage_by_account(of, limit).await?;
    let rows = if is_by_month { by_month(rows) } else { rows };
    let token =
        |last: &AccountDay| format!("{}.{}.{}.{}", days.start.0, days.end.0, last.account_id.0, last.day.0);
    let (rows, next_page_token) = convert::cut(rows, size, &tokens, token);
    let start = |day: Day| if is_by_month { day.first_of_month() } else { day };
    Ok(ListAccountUsageResponse {
        usage: rows.into_iter().map(|row| account_usage(start(row.day), row)).collect(),
        next_page_token,
        start_time: Some(days.start.start().to_timestamp()),
        end_time: Some(days.end.start().to_timestamp()),
    })
}

/// Parses the position of a page: the days of all pages, and the last account and day of the page before.
fn parse_position(written: &str) -> Option<(Range<Day>, (AccountId, Day))> {
    let numbers: Vec<i64> = written.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [start, end, account, day] = numbers[..] else { return None };
    Some((Day(start)..Day(end), (AccountId(account), Day(day))))
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
        (today, today.next())
    } else if is_by_month {
        let is_whole = oldest.first_of_month() == oldest;
        let oldest = if is_whole { oldest } else { oldest.last_of_month().next() };
        (start.map_or(oldest, Day::first_of_month).max(oldest), last.last_of_month().next())
    } else {
        (start.unwrap_or(today.minus(DAYS - 1)).max(oldest), last.next())
    };
    Ok(start..end.max(start))
}

/// Returns the sums of each account's days by month. Their day is the last of the month, so that the next
/// page does not return a month again whose later days were counted meanwhile.
fn by_month(days: Vec<AccountDay>) -> Vec<AccountDay> {
    let mut months: Vec<AccountDay> = Vec::new();
    for row in days {
        let month = AccountDay { day: row.day.last_of_month(), ..row };
        match months.last_mut().filter(|sum| (sum.account_id, sum.day) == (month.account_id, month.day)) {
            Some(sum) => sum.counts.add(month.counts),
            None => months.push(month),
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

/// Plans a brownout, from a time and for a length, for one account or for all.
pub(super) async fn create_brownout(
    call: Call,
    request: CreateBrownoutRequest,
) -> Result<CreateBrownoutResponse> {
    let account = convert::account_filter(&request.account)?;
    let start = request.start_time.map(|start| convert::moment("startTime", start)).transpose()?;
    let length = request.duration.ok_or_else(|| convert::refuse("duration", "is required"))?;
    let period = (start.unwrap_or(call.now), convert::duration("duration", length)?);
    let planned = call.change(move |change| {
        Box::pin(async move {
            let planned = brownouts::plan(change.session, account.as_ref(), period, change.now).await?;
            change.record("CreateBrownout", None, &planned).await?;
            Ok(planned)
        })
    });
    let brownout = planned.await?;
    Ok(CreateBrownoutResponse { brownout: Some(brownout_message(&brownout)) })
}

/// Cancels a brownout, unless it has ended or does not exist.
pub(super) async fn cancel_brownout(
    call: Call,
    request: CancelBrownoutRequest,
) -> Result<CancelBrownoutResponse> {
    let cancelled = call.change(move |change| {
        Box::pin(async move {
            let Some(cancelled) = brownouts::cancel(change.session, request.id, change.now).await? else {
                return Ok(());
            };
            let states = [Some(cancelled.json()), None];
            Ok(change.record_event("CancelBrownout", cancelled.subject(), states).await?)
        })
    });
    cancelled.await?;
    Ok(CancelBrownoutResponse {})
}

pub(super) async fn list_brownouts(call: Call, _: ListBrownoutsRequest) -> Result<ListBrownoutsResponse> {
    let brownouts = call.accounts().list_brownouts(call.now).await?;
    Ok(ListBrownoutsResponse { brownouts: brownouts.iter().map(brownout_message).collect() })
}

fn brownout_message(brownout: &Brownout) -> pb::Brownout {
    pb::Brownout {
        id: brownout.id,
        account: brownout.account.as_ref().map(|(_, name)| name.to_string()).unwrap_or_default(),
        operation_id: "getPet".to_owned(),
        start_time: Some(brownout.from.to_timestamp()),
        end_time: Some(brownout.until.to_timestamp()),
    }
}
