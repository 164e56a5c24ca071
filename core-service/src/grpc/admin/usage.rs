//! Usage of accounts, and the overview of all.

use std::collections::HashMap;

use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AccountId, AccountName, Day, Minute, PetStoreError, Violation},
    store::{MinutesOf, timestamp},
};

/// Default number of minutes.
const MINUTES: i64 = 60;
/// Maximum number of periods in an answer. With the longest names they fill a message.
const MAX_PERIODS: u64 = 1_440;
/// Maximum number of refused accounts in the overview.
const MAX_ACCOUNTS: u64 = 10;

/// Default number of days.
const DAYS: i64 = 30;
/// Maximum number of days, which is also how many are stored.
const MAX_DAYS: i64 = 90;
/// Maximum number of accounts that call deprecated operations.
const MAX_USES: u64 = 1_000;

pub(super) async fn get(
    core: &Core,
    caller: Caller,
    request: pb::GetUsageRequest,
) -> Result<pb::GetUsageResponse, PetStoreError> {
    let interval = pb::UsageInterval::try_from(request.interval)
        .map_err(|_| convert::refused(Violation::new("interval", "must be one of minute, day")))?;
    let name = convert::account_filter(&request.account)?;
    let account = match &name {
        Some(name) => Some(core.store.find_account(name).await?.id),
        None => None,
    };
    let start = request.start_time.map(|start| convert::moment("start_time", start)).transpose()?;
    let periods = match interval {
        pb::UsageInterval::Minute => {
            let since = start.map_or(Minute::containing(caller.now).minus(MINUTES - 1), Minute::containing);
            minutes(core, name, account, since, &request).await?
        }
        pb::UsageInterval::Day | pb::UsageInterval::Unspecified => {
            for (is_given, field) in [(!request.key_id.is_empty(), "key_id"), (request.by_key, "by_key")] {
                if is_given {
                    return Err(convert::refused(Violation::new(
                        field,
                        "is for minutes only: days are counted by account",
                    )));
                }
            }
            let since = start.map_or(Day::containing(caller.now).minus(DAYS - 1), Day::containing);
            let name = name.as_ref().map(AccountName::to_string).unwrap_or_default();
            let period = |(day, counts): (Day, pb::UsageCounts)| pb::UsagePeriod {
                start_time: Some(timestamp(day.start())),
                account: name.clone(),
                key_id: String::new(),
                counts: Some(counts),
            };
            core.store.usage_by_day(account, since, "").await?.0.into_iter().map(period).collect()
        }
    };
    Ok(pb::GetUsageResponse { periods })
}

async fn minutes(
    core: &Core,
    mut name: Option<AccountName>,
    mut account: Option<AccountId>,
    since: Minute,
    request: &pb::GetUsageRequest,
) -> Result<Vec<pb::UsagePeriod>, PetStoreError> {
    if request.by_key && account.is_none() {
        return Err(convert::refused(Violation::new("by_key", "needs an account")));
    }
    let key_id =
        Some(request.key_id.as_str()).filter(|id| !id.is_empty()).map(convert::key_id).transpose()?;
    if let Some(key_id) = key_id {
        let key = core.store.find_key(key_id).await?;
        if account.is_some_and(|account| account != key.account_id) {
            return Err(PetStoreError::KeyNotFound(key_id));
        }
        (name, account) = (Some(key.account), Some(key.account_id));
    }
    let of = MinutesOf { account, key_id, by_key: request.by_key };
    let name = name.as_ref().map(AccountName::to_string).unwrap_or_default();
    let mut periods = core.store.usage_by_minute(of, since, MAX_PERIODS).await?;
    for period in &mut periods {
        period.account.clone_from(&name);
    }
    Ok(periods)
}

/// Returns the last minutes, including those without requests, and the causes of refusals in them.
pub(super) async fn overview(
    core: &Core,
    caller: Caller,
    request: pb::GetOverviewRequest,
) -> Result<pb::GetOverviewResponse, PetStoreError> {
    let minutes = match i64::from(request.minutes) {
        0 => MINUTES,
        minutes @ 1..=Minute::KEPT => minutes,
        _ => return Err(convert::refused(Violation::new("minutes", "must be from 1 to 1440"))),
    };
    let last = Minute::containing(caller.now);
    let first = last.minus(minutes - 1);
    // Gateways may report between two of these reads. The counts are read last, so that they are never older
    // than the refusals among them.
    let refusals = core.store.refusals_by_cause(first).await?;
    let refused_accounts = core.store.most_refused(first, MAX_ACCOUNTS).await?;
    let counted = core.store.usage_by_minute(MinutesOf::default(), first, MAX_PERIODS).await?;
    let counted: HashMap<_, _> =
        counted.into_iter().map(|period| (period.start_time, period.counts)).collect();
    let of_minute = |minute| {
        let start_time = Some(timestamp(Minute(minute).start()));
        let counts = counted.get(&start_time).copied().flatten().unwrap_or_default();
        pb::UsagePeriod { start_time, counts: Some(counts), ..pb::UsagePeriod::default() }
    };
    Ok(pb::GetOverviewResponse {
        minutes: (first.0..=last.0).map(of_minute).collect(),
        refusals,
        refused_accounts,
    })
}

pub(super) async fn deprecated(
    core: &Core,
    caller: Caller,
    request: pb::ListDeprecatedUseRequest,
) -> Result<pb::ListDeprecatedUseResponse, PetStoreError> {
    let days = match i64::from(request.days) {
        0 => DAYS,
        days @ 1..=MAX_DAYS => days,
        _ => return Err(convert::refused(Violation::new("days", "must be from 1 to 90"))),
    };
    let since = Day::containing(caller.now).minus(days - 1);
    Ok(pb::ListDeprecatedUseResponse { uses: core.store.deprecated_use(since, MAX_USES).await? })
}
