//! Usage of accounts, and the overview of all.

use std::collections::HashMap;

use petstore_core::{
    accounts::{AccountId, Day, Minute, UsageMinute, store::MinutesOf},
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{
    self as pb, GetOverviewRequest, GetOverviewResponse, GetUsageRequest, GetUsageResponse,
    ListDeprecatedUseRequest, ListDeprecatedUseResponse,
};

use super::{caller::Call, convert};
use crate::error::Result;

/// Default number of minutes.
const MINUTES: i64 = 60;
/// Maximum number of periods in an answer. With the longest names they fill a message.
const MAX_PERIODS: u64 = 1_440;
/// Maximum number of rows in a report of deprecated calls.
const MAX_USES: usize = 1_000;
/// Default number of days.
pub(super) const DAYS: i64 = 30;

pub(super) async fn get(call: Call, request: GetUsageRequest) -> Result<GetUsageResponse> {
    let interval = pb::UsageInterval::try_from(request.interval);
    let account = call.account_id(&request.account).await?;
    let start = request.start_time.map(|start| convert::moment("startTime", start)).transpose()?;
    let periods = match interval {
        Ok(pb::UsageInterval::Minute) => {
            let since = start.map_or(Minute::containing(call.now).minus(MINUTES - 1), Minute::containing);
            minutes(&call, account, since, request).await?
        }
        Ok(pb::UsageInterval::Day | pb::UsageInterval::Unspecified) => {
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
        Ok(pb::UsageInterval::Month) | Err(_) => {
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
pub(super) async fn overview(call: Call, request: GetOverviewRequest) -> Result<GetOverviewResponse> {
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

pub(super) async fn deprecated(
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
