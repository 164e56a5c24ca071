//! `petstore.internal.v1.UsageService`.

use petstore_proto::internal::v1::{
    GetUsageRequest, GetUsageResponse, ReportUsageRequest, ReportUsageResponse,
    usage_service_server::UsageService,
};
use tonic::{Request, Response, Status};

use super::convert;
use crate::{
    Core,
    domain::{AccountId, Day, PetStoreError, ReporterName, Violation},
};

/// How many rows one report may have.
const MAX_ROWS: usize = 1_000;

#[tonic::async_trait]
impl UsageService for Core {
    async fn report_usage(
        &self,
        request: Request<ReportUsageRequest>,
    ) -> Result<Response<ReportUsageResponse>, Status> {
        self.answer("petstore.internal.v1.UsageService/ReportUsage", request, |request| async move {
            let ReportUsageRequest { reporter, number, rows } = request;
            let reporter = ReporterName::parse(reporter).map_err(refuse)?;
            for (holds, field, rule) in [
                (number > 0, "number", "must be positive"),
                (rows.len() <= MAX_ROWS, "rows", "must be at most 1000"),
            ] {
                if !holds {
                    return Err(refuse(Violation::new(field, rule)));
                }
            }
            let rows = convert::usage_rows(rows)?;
            self.store.usage().record(reporter.as_str(), number, &rows, self.clock.now()).await?;
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
