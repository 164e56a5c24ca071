//! `GET /v1/usage` (beta): what the caller's account has used. Admission has judged and inspected the account
//! already, since this costs no quota.

use axum::response::Response;
use http::StatusCode;

use crate::{
    caller::Caller,
    error::{ApiError, responses},
    gateway::GatewayState,
    json::usage::usage_body,
    operation::{Description, Success, description::ACCOUNT},
    rate_limit::LimitStatus,
    routes::json_response,
};

/// What the OpenAPI document says of it.
pub(in crate::routes) const DESCRIPTION: Description = Description {
    tag: ACCOUNT,
    summary: "See what the account has used",
    text: "Costs no quota, and is answered also when the quota is used up and in a ban. It has a limit of \
           its own, 60 a minute for each account, which the rate limit fields show only when it refuses; \
           otherwise they show the account's windows. Requests of the last seconds may be missing.",
    parameters: &[],
    request_body: None,
    success: Success {
        status: "200",
        description: "The account's plan, windows, ban and requests by day.",
        headers: &[],
        schema: "Usage",
        example: None,
        link: None,
    },
    failures: &[&responses::INVALID_REQUEST],
};

pub(crate) async fn get(
    gateway: &GatewayState,
    caller: &Caller,
    limit_status: Option<LimitStatus>,
) -> Result<Response, ApiError> {
    let limit_status = limit_status.ok_or(ApiError::Internal)?;
    let days = gateway.usage.days(caller, gateway.core.retries()).await?;
    Ok(json_response(StatusCode::OK, usage_body(caller.plan, &limit_status, &days)))
}
