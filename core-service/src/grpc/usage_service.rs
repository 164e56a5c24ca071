//! `petstore.internal.v1.UsageService`.

use petstore_proto::internal::v1::{
    GetUsageRequest, GetUsageResponse, ReportUsageRequest, ReportUsageResponse,
    usage_service_server::UsageService,
};
use tonic::{Request, Response, Status};

use super::{convert, usage_report};
use crate::{
    Core,
    domain::{AccountId, Day, PetStoreError, ReporterName, UsageReport, Violation},
};

/// How many rows one report may have, of days, of minutes, and of counts of refusals.
const MAX_ROWS: usize = 1_000;
/// How many refusals.
const MAX_REFUSALS: usize = 500;

#[tonic::async_trait]
impl UsageService for Core {
    async fn report_usage(
        &self,
        request: Request<ReportUsageRequest>,
    ) -> Result<Response<ReportUsageResponse>, Status> {
        self.answer("petstore.internal.v1.UsageService/ReportUsage", request, |request| async move {
            let ReportUsageRequest { reporter, number, rows, minutes, refusals, refusal_counts } = request;
            let reporter = ReporterName::parse(reporter).map_err(refuse)?;
            for (holds, field, rule) in [
                (number > 0, "number", "must be positive"),
                (rows.len() <= MAX_ROWS, "rows", "must be at most 1000"),
                (minutes.len() <= MAX_ROWS, "minutes", "must be at most 1000"),
                (refusals.len() <= MAX_REFUSALS, "refusals", "must be at most 500"),
                (refusal_counts.len() <= MAX_ROWS, "refusal_counts", "must be at most 1000"),
            ] {
                if !holds {
                    return Err(refuse(Violation::new(field, rule)));
                }
            }
            let report = UsageReport {
                days: convert::usage_rows(rows)?,
                minutes: usage_report::minutes(minutes)?,
                refusals: usage_report::refusals(refusals)?,
                refusal_counts: usage_report::refusal_counts(refusal_counts)?,
            };
            self.store.usage().record(reporter.as_str(), number, report, self.clock.now()).await?;
            Ok(ReportUsageResponse {})
        })
        .await
    }

    async fn get_usage(
        &self,
        request: Request<GetUsageRequest>,
    ) -> Result<Response<GetUsageResponse>, Status> {
        self.answer("petstore.internal.v1.UsageService/GetUsage", request, |request| async move {
            let GetUsageRequest { account_id, since_day, reporter } = request;
            // A caller that has reported nothing has no name.
            let reporter = Some(reporter).filter(|name| !name.is_empty()).map(ReporterName::parse);
            let reporter = reporter.transpose().map_err(refuse)?;
            let reporter = reporter.as_ref().map(ReporterName::as_str).unwrap_or_default();
            let usage = self.store.usage().since(AccountId(account_id), Day(since_day), reporter).await?;
            Ok(GetUsageResponse {
                days: usage.days.into_iter().map(convert::usage_day).collect(),
                last_report: usage.last_report,
            })
        })
        .await
    }
}

fn refuse(violation: Violation) -> PetStoreError {
    PetStoreError::InvalidParameter(violation.into())
}
