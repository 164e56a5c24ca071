//! `petstore.internal.v1.UsageService`.

use std::collections::HashSet;

use petstore_proto::{
    admin::v1::UsageCounts,
    internal::v1::{self as internal, usage_service_server::UsageService},
};
use tonic::{Request, Response, Status};

use super::{
    convert::{key_id, moment, refused},
    methods::{GET_USAGE, REPORT_USAGE},
};
use crate::{
    Core,
    domain::{
        AccountId, Day, MAX_COUNT, Minute, PetStoreError, Refusal, RefusalCause, RefusalCount, UsageMinute,
        UsageReport, Violation, check_reporter,
    },
};

/// Maximum number of rows of one report: of requests, and of counts of refusals.
const MAX_ROWS: usize = 1_000;
/// Maximum number of refusals in one report.
const MAX_REFUSALS: usize = 500;

#[tonic::async_trait]
impl UsageService for Core {
    async fn report_usage(
        &self,
        request: Request<internal::ReportUsageRequest>,
    ) -> Result<Response<internal::ReportUsageResponse>, Status> {
        self.answer(&REPORT_USAGE, request, |request| async move {
            let internal::ReportUsageRequest { reporter, number, requests, refusals, refusal_counts } =
                request;
            check_reporter(&reporter).map_err(refused)?;
            for (holds, field, rule) in [
                (number > 0, "number", "must be positive"),
                (requests.len() <= MAX_ROWS, "requests", "must be at most 1000"),
                (refusals.len() <= MAX_REFUSALS, "refusals", "must be at most 500"),
                (refusal_counts.len() <= MAX_ROWS, "refusal_counts", "must be at most 1000"),
            ] {
                if !holds {
                    return Err(refused(Violation::new(field, rule)));
                }
            }
            let report = UsageReport {
                requests: parse_requests(requests)?,
                refusals: refusals
                    .into_iter()
                    .filter_map(|it| refusal(it).transpose())
                    .collect::<Result<_, _>>()?,
                refusal_counts: parse_refusal_counts(refusal_counts)?,
            };
            self.store.record_usage(&reporter, number, report, self.clock.now()).await?;
            Ok(internal::ReportUsageResponse {})
        })
        .await
    }

    async fn get_usage(
        &self,
        request: Request<internal::GetUsageRequest>,
    ) -> Result<Response<internal::GetUsageResponse>, Status> {
        self.answer(&GET_USAGE, request, |request| async move {
            let internal::GetUsageRequest { account_id, since_day, reporter } = request;
            // A caller that has reported nothing has no name.
            if !reporter.is_empty() {
                check_reporter(&reporter).map_err(refused)?;
            }
            let account = Some(AccountId(account_id));
            let (days, last_report) = self.store.usage_by_day(account, Day(since_day), &reporter).await?;
            let days = days.into_iter().map(|(day, counts)| {
                let UsageCounts { succeeded, client_errors, refused, server_errors, get_pet } = counts;
                internal::UsageDay { day: day.0, succeeded, client_errors, refused, server_errors, get_pet }
            });
            Ok(internal::GetUsageResponse { days: days.collect(), last_report })
        })
        .await
    }
}

/// Parses requests by account, minute and key, each once.
fn parse_requests(rows: Vec<internal::UsageRow>) -> Result<Vec<(AccountId, UsageMinute)>, PetStoreError> {
    let mut seen = HashSet::with_capacity(rows.len());
    let parse = |row: internal::UsageRow| {
        let internal::UsageRow { account_id, key_id: key, minute, succeeded, client_errors, .. } = row;
        let internal::UsageRow { refused: limited, server_errors, get_pet, .. } = row;
        let counts = [succeeded, client_errors, limited, server_errors, get_pet];
        let key_id = (!key.is_empty()).then(|| key_id("requests.key_id", &key)).transpose()?;
        if !seen.insert((account_id, key_id, minute)) {
            return Err(refused(Violation::new("requests", "must have each account, key and minute once")));
        }
        let minute = UsageMinute::new(Minute(minute), key_id, counts).map_err(refused)?;
        Ok((AccountId(account_id), minute))
    };
    rows.into_iter().map(parse).collect()
}

/// Parses a refusal. Returns `None` if this release does not know its cause.
fn refusal(reported: internal::Refusal) -> Result<Option<Refusal>, PetStoreError> {
    let Some(cause) = RefusalCause::from_number(reported.cause.into()) else { return Ok(None) };
    Refusal::check_request_id(&reported.request_id).map_err(refused)?;
    let positive = |field, number: i64| match number {
        ..0 => Err(refused(Violation::new(field, "must not be negative"))),
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
        repeats: positive("refusals.repeats", reported.repeats)?.unwrap_or_default().min(MAX_COUNT),
        request_id: reported.request_id,
    }))
}

/// Parses counts of refusals by minute and cause, each once, without causes that this release does not know.
fn parse_refusal_counts(counts: Vec<internal::RefusalCount>) -> Result<Vec<RefusalCount>, PetStoreError> {
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
