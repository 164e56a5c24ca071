//! `GET /v1/usage` (beta): what the caller's account has used. Admission has judged and inspected the account
//! already, since this costs no quota.

use std::sync::Arc;

use axum::{Extension, extract::State, response::Response};
use http::StatusCode;

use crate::{
    caller::Caller, error::ApiError, gateway::GatewayState, json::usage_body, rate_limit::LimitStatus,
    routes::json,
};

pub(crate) async fn get(
    State(gateway): State<Arc<GatewayState>>,
    Extension(limit_status): Extension<LimitStatus>,
    caller: Caller,
) -> Result<Response, ApiError> {
    let days = gateway.usage.days(&caller, gateway.core.retries()).await?;
    Ok(json(StatusCode::OK, usage_body(caller.plan, &limit_status, &days)))
}
