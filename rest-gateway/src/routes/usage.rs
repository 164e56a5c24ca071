//! `GET /v1/usage` (beta): what the caller's account has used. Admission has judged and inspected the account
//! already, since this costs no quota.

use std::sync::Arc;

use axum::{Extension, extract::State, response::Response};
use http::StatusCode;

use crate::{
    error::ApiError, gateway::GatewayState, json::usage_body, middleware::Caller, rate_limit::LimitStatus,
    routes::json,
};

/// Where it is.
pub(crate) const PATH: &str = "/v1/usage";

pub(crate) async fn get(
    State(gateway): State<Arc<GatewayState>>,
    Extension(limit_status): Extension<LimitStatus>,
    caller: Caller,
) -> Result<Response, ApiError> {
    let days = gateway.usage.days(&caller, &gateway.retries).await?;
    Ok(json(StatusCode::OK, usage_body(&caller.key, &limit_status, &days)))
}
