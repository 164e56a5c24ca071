//! State of an account's or a key's limits in this gateway's limiter:
//! `GET /admin/v1/accounts/{account}/limits`.

use std::sync::Arc;

use axum::{
    extract::{RawPathParams, Request, State},
    response::Response,
};
use http::StatusCode;
use petstore_clock::{Timestamp, UnixMillis};
use petstore_proto::admin::v1::{Account, AdminErrorReason, Ban, GetAccountResponse, GetKeyResponse, Limits};
use prost_reflect::{DynamicMessage, Value};
use serde_json::Value as Json;

use super::{
    AdminState,
    call::{CallRecord, Credentials},
    error::AdminError,
    finished, method,
};
use crate::{
    error::ApiError,
    json::usage::limit_status,
    rate_limit::{BanPeriod, LimitKey, Quota},
};

pub(super) const PATH: &str = "/admin/v1/accounts/{account}/limits";

pub(super) async fn get(
    State(state): State<Arc<AdminState>>,
    path_params: RawPathParams,
    request: Request,
) -> Response {
    let credentials = state.authenticate(request.headers(), request.extensions());
    let key_id = key_id(request.uri().query().unwrap_or_default());
    drop(request);
    let mut record = CallRecord::default();
    let answered = async {
        let credentials = credentials?;
        let account = path_params.iter().find(|(name, _)| *name == "account").map(|(_, value)| value);
        status(&state, account.unwrap_or_default(), key_id?, &credentials, &mut record).await
    };
    let answered = answered.await;
    record.method = Some("GetLimitStatus".to_owned());
    finished(StatusCode::OK, answered, record)
}

/// Returns the key that the query names, if there is one.
///
/// # Errors
///
/// If the query has anything else. The message names every fault.
fn key_id(query: &str) -> Result<Option<String>, AdminError> {
    let mut key_id = None;
    let mut faults = Vec::new();
    for (name, value) in method::parameters(query, &mut faults) {
        if name == "keyId" {
            key_id = Some(value);
        } else {
            faults.push(format!("{name} is no parameter of this operation"));
        }
    }
    if faults.is_empty() { Ok(key_id) } else { Err(ApiError::InvalidParameter(faults.join("; ")).into()) }
}

/// Returns the body of the answer. The core decides whether the operator may see the account, and knows the
/// account's limits and the key's owner.
async fn status(
    state: &AdminState,
    account: &str,
    key_id: Option<String>,
    credentials: &Credentials,
    record: &mut CallRecord,
) -> Result<String, AdminError> {
    let answer = find(state, "GetAccount", "account", account, credentials, record).await?;
    let answer: GetAccountResponse = answer.transcode_to().map_err(|_| ApiError::Internal)?;
    let Account { id: account_id, limits, .. } = answer.account.ok_or(ApiError::Internal)?;
    let quota = limits.as_ref().and_then(quota).ok_or(ApiError::Internal)?;
    let (limit_key, ban) = match key_id {
        Some(written) => {
            let answer = find(state, "GetKey", "key_id", &written, credentials, record).await?;
            let answer: GetKeyResponse = answer.transcode_to().map_err(|_| ApiError::Internal)?;
            let key = answer.key.ok_or(ApiError::Internal)?;
            if key.account_id != account_id {
                let message = format!("account {account} has no key {}", key.id);
                let reason = AdminErrorReason::KeyNotFound;
                return Err(AdminError::Refused { reason, message, retry_after: None });
            }
            let ban = key.ban.as_ref().and_then(period);
            (LimitKey::ApiKey { account_id, key_id: key.id.into() }, ban)
        }
        None => (LimitKey::Account(account_id), None),
    };
    let settled_at = ban.map_or(UnixMillis(0), |ban| ban.until);
    let mut status =
        state.gateway.limiter.inspect(&limit_key, quota, settled_at).await.map_err(ApiError::from)?;
    status.decision.ban = ban;
    Ok(Json::Object(limit_status(&status)).to_string())
}

/// Calls a method of the core whose request has one field.
async fn find(
    state: &AdminState,
    method: &str,
    field: &str,
    value: &str,
    credentials: &Credentials,
    record: &mut CallRecord,
) -> Result<DynamicMessage, AdminError> {
    let method = method::AdminMethod::find(method).ok_or(ApiError::Internal)?;
    let mut message = method.request();
    message.set_field_by_name(field, Value::String(value.to_owned()));
    state.call(&method, &message, credentials, record).await
}

/// Returns the time of a ban.
fn period(ban: &Ban) -> Option<BanPeriod> {
    let moment = |timestamp: Option<Timestamp>| UnixMillis::from_timestamp(timestamp?);
    Some(BanPeriod { from: moment(ban.create_time)?, until: moment(ban.end_time)? })
}

fn quota(limits: &Limits) -> Option<Quota> {
    let positive = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
    Some(Quota { per_minute: positive(limits.per_minute)?, per_day: positive(limits.per_day)? })
}
