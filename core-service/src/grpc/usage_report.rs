//! What a gateway reports beside the counts by day: wire -> domain.

use std::collections::HashSet;

use petstore_proto::internal::v1 as internal;

use super::convert::{key_id, moment, refused};
use crate::domain::{
    AccountId, Minute, PetStoreError, Refusal, RefusalCause, RefusalCount, Tally, UsageMinute, Violation,
};

/// What was counted, by minute and key, each once.
pub(super) fn minutes(
    rows: Vec<internal::UsageMinuteRow>,
) -> Result<Vec<(AccountId, UsageMinute)>, PetStoreError> {
    let mut seen = HashSet::with_capacity(rows.len());
    let mut parse = |row: internal::UsageMinuteRow| {
        let internal::UsageMinuteRow { account_id, minute, succeeded, client_errors, .. } = row;
        let internal::UsageMinuteRow { refused: limited, server_errors, get_pet, .. } = row;
        let tally = Tally { succeeded, client_errors, refused: limited, server_errors, get_pet };
        let key_id = key_id("minutes.key_id", &row.key_id)?;
        if !seen.insert((account_id, key_id, minute)) {
            return Err(refused(Violation::new("minutes", "must have each minute and key once")));
        }
        let minute = UsageMinute::new(Minute(minute), key_id, tally).map_err(refused)?;
        Ok((AccountId(account_id), minute))
    };
    rows.into_iter().map(&mut parse).collect()
}

/// The refusals whose cause this release knows.
pub(super) fn refusals(refusals: Vec<internal::Refusal>) -> Result<Vec<Refusal>, PetStoreError> {
    refusals.into_iter().filter_map(|one| refusal(one).transpose()).collect()
}

fn refusal(reported: internal::Refusal) -> Result<Option<Refusal>, PetStoreError> {
    let Some(cause) = RefusalCause::from_number(reported.cause.into()) else { return Ok(None) };
    Refusal::check_request_id(&reported.request_id).map_err(refused)?;
    let negative = |field| refused(Violation::new(field, "must not be negative"));
    let positive = |field, number: i64| match number {
        ..0 => Err(negative(field)),
        0 => Ok(None),
        number => Ok(Some(number)),
    };
    let of_time = |field, millis: Option<i64>| millis.map(|millis| moment(field, millis)).transpose();
    Ok(Some(Refusal {
        at: moment("refusals.refused_at_ms", reported.refused_at_ms)?,
        cause,
        account: positive("refusals.account_id", reported.account_id)?.map(AccountId),
        key_id: match reported.key_id.as_str() {
            "" => None,
            id => Some(key_id("refusals.key_id", id)?),
        },
        limit: positive("refusals.limit", reported.limit)?,
        since: of_time("refusals.since_ms", reported.since_ms)?,
        until: of_time("refusals.until_ms", reported.until_ms)?,
        repeats: positive("refusals.repeats", reported.repeats)?.unwrap_or_default().min(Tally::MAX),
        request_id: reported.request_id,
    }))
}

/// How many requests were refused, by minute and cause, each once; without causes that this release does not
/// know.
pub(super) fn refusal_counts(
    counts: Vec<internal::RefusalCount>,
) -> Result<Vec<RefusalCount>, PetStoreError> {
    let mut seen = HashSet::with_capacity(counts.len());
    let mut parse = |count: internal::RefusalCount| {
        let cause = RefusalCause::from_number(count.cause.into())?;
        if !seen.insert((count.minute, cause)) {
            return Some(Err(Violation::new("refusal_counts", "must have each minute and cause once")));
        }
        Some(RefusalCount::new(Minute(count.minute), cause, count.requests))
    };
    counts.into_iter().filter_map(|count| Some(parse(count)?.map_err(refused))).collect()
}
