//! `GET /admin/v1/accounts/{account}/limits`: what only a gateway knows, from the limiter in use.

use std::sync::Arc;

use axum::{
    extract::{RawPathParams, Request, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use petstore_proto::admin::v1::{GetAccountResponse, Limits};
use serde_json::json;

use super::{AdminState, error::AdminError, method, not_stored};
use crate::{
    error::ApiError,
    json::usage::LimitStatusBody,
    rate_limit::{LimitKey, Quota},
    routes::json_response,
};

pub(super) const PATH: &str = "/admin/v1/accounts/{account}/limits";

pub(super) async fn get(
    State(state): State<Arc<AdminState>>,
    path_params: RawPathParams,
    request: Request,
) -> Response {
    let key = request.uri().query().and_then(|query| query.strip_prefix("keyId=")).map(str::to_owned);
    let credentials = state.authenticate(request.headers(), request.extensions());
    drop(request);
    let answered = async {
        let credentials = credentials?;
        let account = path_params
            .iter()
            .find(|(name, _)| *name == "account")
            .map(|(_, value)| value.to_owned())
            .unwrap_or_default();
        status(&state, &account, key, &credentials).await
    };
    not_stored(match answered.await {
        Ok(body) => json_response(StatusCode::OK, body),
        Err(error) => error.into_response(),
    })
}

/// The core decides whether the operator may see the account, and knows its limits.
async fn status(
    state: &AdminState,
    account: &str,
    key: Option<String>,
    credentials: &super::Credentials,
) -> Result<String, AdminError> {
    let method = method::find("GetAccount").ok_or(ApiError::Internal)?;
    let mut message = method.request();
    message.set_field_by_name("account", prost_reflect::Value::String(account.to_owned()));
    let answer = state.call(&method, &message, credentials).await?;
    let answer: GetAccountResponse = answer.transcode_to().map_err(|_| ApiError::Internal)?;
    let account = answer.account.ok_or(ApiError::Internal)?;
    let quota = account.limits.as_ref().and_then(quota).ok_or(ApiError::Internal)?;
    let limit_key = match key {
        Some(key_id) => LimitKey::ApiKey { account_id: account.id, key_id: key_id.into() },
        None => LimitKey::Account(account.id),
    };
    let status = state.gateway.limiter.inspect(&limit_key, quota).await.map_err(ApiError::from)?;
    Ok(json!(LimitStatusBody::from(&status)).to_string())
}

fn quota(limits: &Limits) -> Option<Quota> {
    let positive = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
    Some(Quota { per_minute: positive(limits.per_minute)?, per_day: positive(limits.per_day)? })
}
