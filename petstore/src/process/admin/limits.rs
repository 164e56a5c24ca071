//! `POST /limits/{account}`: how much of its limits an account or a key has used. The caller sends the quota,
//! which it knows from the store; the counters are in this process or in its Redis.

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use petstore_gateway::{
    LimitStatusBody,
    rate_limit::{LimitKey, Quota},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Health, answer, not_found, refuse};

/// The body of the request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LimitsRequest {
    pub(super) per_minute: u64,
    pub(super) per_day: u64,
    /// The identifier of a key; without it the account is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

pub(super) async fn status(
    State(health): State<Health>,
    Path(account_id): Path<i64>,
    body: Bytes,
) -> Response {
    let Some(gateway) = health.sources.get().and_then(|sources| sources.gateway.as_ref()) else {
        return not_found().await;
    };
    let LimitsRequest { per_minute, per_day, key } = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "INVALID_REQUEST", &error.to_string()),
    };
    let limit_key = match key {
        Some(key) => LimitKey::ApiKey { account_id, key_id: key.into() },
        None => LimitKey::Account(account_id),
    };
    match gateway.limit_status(&limit_key, Quota { per_minute, per_day }).await {
        Ok(status) => answer(StatusCode::OK, &json!(LimitStatusBody::from(&status))),
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, "LIMITER_UNAVAILABLE", &error.to_string()),
    }
}
