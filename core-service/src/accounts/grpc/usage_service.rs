//! `petstore.internal.v1.UsageService`.

use std::collections::HashSet;

use petstore_proto::{
    internal::v1::{
        self as internal, GetUsageRequest, GetUsageResponse, ReportUsageRequest, ReportUsageResponse,
        usage_service_server::UsageService,
    },
    rpc::{GET_USAGE, REPORT_USAGE},
};
use tonic::{Request, Response, Result, async_trait};

use super::{key_id, moment, refuse, refused};
use crate::{
    Core,
    accounts::{
        AccountId, Day, MAX_COUNT, Minute, Refusal, RefusalCount, RequestCounts, UsageMinute, UsageReport,
        check_reporter, check_request_id, refusal_cause,
    },
    grpc::{CallResult, MAX_ENTRIES},
    violations::Violation,
};

#[async_trait]
impl UsageService for Core {
    async fn report_usage(
        &self,
        request: Request<ReportUsageRequest>,
    ) -> Result<Response<ReportUsageResponse>> {
        self.answer(REPORT_USAGE, request, |request| async move {
            let ReportUsageRequest { reporter, number, requests, refusals, refusal_counts } = request;
            check_reporter(&reporter).map_err(refused)?;
            let check = |holds, field, rule| Violation::check(holds, field, rule).map_err(refused);
            check(number > 0, "number", "must be positive")?;
            check(requests.len() <= MAX_ENTRIES, "requests", "must be at most 1000")?;
            check(refusals.len() <= MAX_ENTRIES / 2, "refusals", "must be at most 500")?;
            check(refusal_counts.len() <= MAX_ENTRIES, "refusal_counts", "must be at most 1000")?;
            let report = UsageReport {
                requests: parse_requests(requests)?,
                refusals: refusals
                    .into_iter()
                    .filter_map(|it| refusal(it).transpose())
                    .collect::<CallResult<_>>()?,
                refusal_counts: parse_refusal_counts(refusal_counts)?,
            };
            self.store.accounts.record_usage(&reporter, number, report, self.clock.now()).await?;
            Ok(ReportUsageResponse {})
        })
        .await
    }

    async fn get_usage(&self, request: Request<GetUsageRequest>) -> Result<Response<GetUsageResponse>> {
        self.answer(GET_USAGE, request, |request| async move {
            let GetUsageRequest { account_id, since_day, reporter } = request;
            // A caller that has reported nothing has no name.
            if !reporter.is_empty() {
                check_reporter(&reporter).map_err(refused)?;
            }
            let usage =
                self.store.accounts.usage_by_day(Some(AccountId(account_id)), Day(since_day), &reporter);
            let (days, last_report) = usage.await?;
            let days = days.into_iter().map(|(day, counts)| {
                let RequestCounts { succeeded, client_errors, refused, server_errors, get_pet } = counts;
                internal::UsageDay { day: day.0, succeeded, client_errors, refused, server_errors, get_pet }
            });
            Ok(GetUsageResponse { days: days.collect(), last_report })
        })
        .await
    }
}

/// Parses requests by account, minute and key, each once.
fn parse_requests(rows: Vec<internal::UsageRow>) -> CallResult<Vec<(AccountId, UsageMinute)>> {
    let mut seen = HashSet::with_capacity(rows.len());
    let parse = |row: internal::UsageRow| {
        let internal::UsageRow { account_id, key_id: key, minute, succeeded, client_errors, .. } = row;
        let internal::UsageRow { refused: limited, server_errors, get_pet, .. } = row;
        let counts = RequestCounts { succeeded, client_errors, refused: limited, server_errors, get_pet };
        let key_id = (!key.is_empty()).then(|| key_id("requests.key_id", &key)).transpose()?;
        if !seen.insert((account_id, key_id, minute)) {
            return Err(refuse("requests", "must have each account, key and minute once"));
        }
        let minute = UsageMinute::new(Minute(minute), key_id, counts).map_err(refused)?;
        Ok((AccountId(account_id), minute))
    };
    rows.into_iter().map(parse).collect()
}

/// Parses a refusal. Returns `None` if this release does not know its cause.
fn refusal(reported: internal::Refusal) -> CallResult<Option<Refusal>> {
    let Some(cause) = refusal_cause(reported.cause.into()) else { return Ok(None) };
    check_request_id(&reported.request_id).map_err(refused)?;
    let positive = |field, number: i64| match number {
        ..0 => Err(refuse(field, "must not be negative")),
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
fn parse_refusal_counts(counts: Vec<internal::RefusalCount>) -> CallResult<Vec<RefusalCount>> {
    let mut seen = HashSet::with_capacity(counts.len());
    let parse = |count: internal::RefusalCount| {
        let cause = refusal_cause(count.cause.into())?;
        if !seen.insert((count.minute, cause)) {
            return Some(Err(refuse("refusal_counts", "must have each minute and cause once")));
        }
        Some(RefusalCount::new(Minute(count.minute), cause, count.requests).map_err(refused))
    };
    counts.into_iter().filter_map(parse).collect()
}
