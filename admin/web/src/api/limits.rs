//! State of an account's or a key's limits in this gateway's limiter:
//! `GET /admin/v1/accounts/{account}/limits`.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use petstore_gateway::ApiError;
use petstore_proto::admin::v1::{Account, AdminErrorReason, GetAccountResponse, GetKeyResponse, Limits};
use petstore_rate_limit::Quota;
use prost_reflect::{DynamicMessage, Value};
use serde_json::Value as Json;

use super::{
    AdminState, PathParams, body_of,
    call::{CallRecord, Credentials},
    error::AdminError,
    finished, in_path,
    method::{AdminMethod, Binding},
};

pub(super) const PATH: &str = "/admin/v1/accounts/{account}/limits";

pub(super) async fn get(
    State(state): State<Arc<AdminState>>,
    path_params: PathParams,
    request: Request,
) -> Response {
    let mut record = CallRecord::default();
    let answered = async {
        let credentials = state.authenticate(request.headers(), request.extensions())?;
        let path = in_path(path_params)?;
        let account = path.iter().find(|(name, _)| *name == "account").map(|(_, value)| value);
        let query = request.uri().query().unwrap_or_default().to_owned();
        // The parameter is the field of the method that finds the key.
        let binding = Binding::get(PATH);
        let body = body_of(request, &binding).await?;
        let key = binding.message(&method("GetKey")?, &[], &query, &body)?;
        status(&state, account.unwrap_or_default(), key, &credentials, &mut record).await
    };
    let answered = answered.await;
    record.method = Some("GetLimitStatus".to_owned());
    finished(StatusCode::OK, answered, record)
}

/// Returns the body of the answer. The core decides whether the operator may see the account and the key.
async fn status(
    state: &AdminState,
    account: &str,
    find_key: DynamicMessage,
    credentials: &Credentials,
    record: &mut CallRecord,
) -> Result<String, AdminError> {
    let get_account = method("GetAccount")?;
    let mut find_account = get_account.request();
    find_account.set_field_by_name("account", Value::String(account.to_owned()));
    let answer = state.call(&get_account, &find_account, credentials, record).await?;
    let answer: GetAccountResponse = answer.transcode_to().map_err(|_| ApiError::Internal)?;
    let Account { id: account_id, limits, .. } = answer.account.ok_or(ApiError::Internal)?;
    let status = if find_key.has_field_by_name("key_id") {
        let answer = state.call(&method("GetKey")?, &find_key, credentials, record).await?;
        let answer: GetKeyResponse = answer.transcode_to().map_err(|_| ApiError::Internal)?;
        let key = answer.key.ok_or(ApiError::Internal)?;
        if key.account_id != account_id {
            let message = format!("account {account} has no key {}", key.id);
            let reason = AdminErrorReason::KeyNotFound;
            return Err(AdminError::Refused { reason, message, retry_after: None });
        }
        state.gateway.key_limits(&key.id).await
    } else {
        let quota = limits.as_ref().and_then(quota).ok_or(ApiError::Internal)?;
        state.gateway.account_limits(account_id, quota).await
    };
    Ok(Json::Object(status?).to_string())
}

/// Adds the windows of the account that an explanation of refusals is about, and the state of its key.
/// Without a limiter they are left out.
pub(super) async fn add(state: &AdminState, explanation: &mut Json) {
    let limits = &explanation["account"]["limits"];
    let limit = |name: &str| limits[name].as_u64();
    let quota = limit("perMinute").zip(limit("perDay"));
    let Some((id, (per_minute, per_day))) = explanation["account"]["id"].as_i64().zip(quota) else { return };
    let of_key = match explanation["key"]["id"].as_str() {
        Some(key_id) => state.gateway.key_limits(key_id).await.ok(),
        None => None,
    };
    let limits = match of_key {
        Some(limits) => Ok(limits),
        None => state.gateway.account_limits(id, Quota { per_minute, per_day }).await,
    };
    if let Ok(limits) = limits {
        explanation["limits"] = limits.into();
    }
}

fn method(name: &str) -> Result<AdminMethod, ApiError> {
    AdminMethod::find(name).ok_or(ApiError::Internal)
}

fn quota(limits: &Limits) -> Option<Quota> {
    let positive = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
    Some(Quota { per_minute: positive(limits.per_minute)?, per_day: positive(limits.per_day)? })
}
