//! What accounts asked for.

use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AccountName, Day, PetStoreError, Tally, Violation},
};

/// How many days are told unless more are asked for.
const DAYS: i64 = 30;
/// How many days may be asked for: so many are kept.
const MAX_DAYS: i64 = 90;
/// How many accounts are named that call deprecated operations.
const MAX_USES: u64 = 1_000;

pub(super) async fn get(
    core: &Core,
    caller: Caller,
    request: pb::GetUsageRequest,
) -> Result<pb::GetUsageResponse, PetStoreError> {
    let name = convert::account_filter(&request.account)?;
    let account = match &name {
        Some(name) => Some(core.store.accounts().find(name).await?.id),
        None => None,
    };
    let since = match request.start_time {
        Some(start) => Day::containing(convert::moment("start_time", start)?),
        None => Day::containing(caller.now).minus(DAYS - 1),
    };
    let days = core.store.usage().by_day(account, since).await?;
    let name = name.as_ref().map(AccountName::to_string).unwrap_or_default();
    let period = |day: crate::domain::UsageDay| pb::UsagePeriod {
        start_time: Some(convert::timestamp(day.day.start())),
        account: name.clone(),
        key_id: String::new(),
        counts: Some(counts(day.tally)),
    };
    Ok(pb::GetUsageResponse { periods: days.into_iter().map(period).collect() })
}

fn counts(Tally { succeeded, client_errors, refused, server_errors, get_pet }: Tally) -> pb::UsageCounts {
    pb::UsageCounts { succeeded, client_errors, refused, server_errors, get_pet }
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
    let uses = core.store.usage().deprecated_since(since, MAX_USES).await?;
    let uses = uses.into_iter().map(|used| pb::DeprecatedUse {
        account: used.account.to_string(),
        operation_id: "getPet".to_owned(),
        calls: used.calls,
        last_day: Some(convert::timestamp(used.last_day.start())),
    });
    Ok(pb::ListDeprecatedUseResponse { uses: uses.collect() })
}
