//! `petstore.internal.v1.UsageService`.

use petstore_proto::internal::v1::{
    GetUsageRequest, GetUsageResponse, ReportUsageRequest, ReportUsageResponse,
    usage_service_server::UsageService,
};
use tonic::{Request, Response, Status};

use super::convert;
use crate::{
    Core,
    domain::{AccountId, Day, PetStoreError, Violation},
};

/// How many rows one report may have.
const MAX_ROWS: usize = 1_000;
/// How long the name of a gateway's run may be.
const MAX_REPORTER: usize = 64;

#[tonic::async_trait]
impl UsageService for Core {
    async fn report_usage(
        &self,
        request: Request<ReportUsageRequest>,
    ) -> Result<Response<ReportUsageResponse>, Status> {
        self.answer("petstore.internal.v1.UsageService/ReportUsage", request, |request| async move {
            let ReportUsageRequest { reporter, number, rows } = request;
            let is_name = (1..=MAX_REPORTER).contains(&reporter.len())
                && reporter.bytes().all(|byte| byte.is_ascii_graphic());
            for (holds, field, rule) in [
                (is_name, "reporter", "must be 1 to 64 visible ASCII characters"),
                (number > 0, "number", "must be positive"),
                (rows.len() <= MAX_ROWS, "rows", "must be at most 1000"),
            ] {
                if !holds {
                    return Err(PetStoreError::InvalidParameter(Violation::new(field, rule).into()));
                }
            }
            let rows = rows.into_iter().map(convert::usage_row).collect::<Result<Vec<_>, _>>()?;
            self.store.record_usage(&reporter, number, &rows, self.clock.now()).await?;
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
            let usage = self.store.usage_of(AccountId(account_id), Day(since_day), &reporter).await?;
            Ok(GetUsageResponse {
                days: usage.days.into_iter().map(convert::usage_day).collect(),
                last_report: usage.last_report,
            })
        })
        .await
    }
}
