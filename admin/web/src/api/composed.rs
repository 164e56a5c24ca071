//! Operations of the admin API that are more than one call of the core: the limits of an account or key,
//! which are in this gateway's limiter; the owners of the keys in a text; the usage of all accounts as CSV.
//!
//! A text may be a leaked file, so the keys in it go no further than this process: the core gets their
//! digests, and the answer has their last four characters. The core is asked for one page of usage at a time,
//! as the client reads, so that a report of any size takes the memory of one page.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, StatusCode, header};
use petstore_caller::api_key::ApiKey;
use petstore_gateway::{ApiError, request_body};
use petstore_proto::admin::v1::AdminErrorReason;
use petstore_rate_limit::Quota;
use prost_reflect::{DynamicMessage, Value};
use serde_json::{Map, Value as Json, json};

use super::{
    AdminState, PathParams, body_of,
    call::CallRecord,
    error::AdminApiError,
    finished, in_path, json,
    method::{AdminMethod, Binding},
};

pub(super) const LIMITS_PATH: &str = "/admin/v1/accounts/{account}/limits";

pub(super) async fn get_limits(
    State(state): State<Arc<AdminState>>,
    path_params: PathParams,
    request: Request,
) -> Response {
    let mut record = CallRecord::default();
    let answered = async {
        let credentials = state.authenticate(request.headers(), request.extensions())?;
        let path = in_path(path_params)?;
        let account = path.iter().find(|(name, _)| *name == "account").map(|(_, value)| value);
        let account = account.unwrap_or_default();
        let query = request.uri().query().unwrap_or_default().to_owned();
        // The parameter is the field of the method that finds the key.
        let binding = Binding::get(LIMITS_PATH);
        let body = body_of(request, &binding).await?;
        let (get_account, get_key) = (method("GetAccount")?, method("GetKey")?);
        let find_key = binding.message(&get_key, &[], &query, &body)?;
        let mut find_account = get_account.request();
        find_account.set_field_by_name("account", Value::String(account.to_owned()));
        // The core decides whether the operator may see the account and the key.
        let found = state.call(&get_account, &find_account, &credentials, &mut record).await?;
        let found = get_account.body(&found);
        let mut key = Json::Null;
        if find_key.has_field_by_name("key_id") {
            key = get_key.body(&state.call(&get_key, &find_key, &credentials, &mut record).await?);
            if key["accountId"] != found["id"] {
                let id = key["id"].as_str().unwrap_or_default();
                let message = format!("account {account} has no key {id}");
                let reason = AdminErrorReason::KeyNotFound;
                return Err(AdminApiError::Refused { reason, message, retry_after: None });
            }
        }
        Ok(Json::Object(limits_of(&state, &found, &key).await?).to_string())
    };
    let answered = answered.await;
    record.method = Some("GetLimitStatus".to_owned());
    finished(StatusCode::OK, answered, record)
}

/// Returns the state of a key, or the windows of its account if the key is null.
async fn limits_of(state: &AdminState, account: &Json, key: &Json) -> Result<Map<String, Json>, ApiError> {
    if let Some(key_id) = key["id"].as_str() {
        return state.gateway.key_limits(key_id).await;
    }
    let limit = |name: &str| account["limits"][name].as_u64().filter(|limit| *limit > 0);
    let quota = limit("perMinute").zip(limit("perDay"));
    let (id, (per_minute, per_day)) = account["id"].as_i64().zip(quota).ok_or(ApiError::Internal)?;
    state.gateway.account_limits(id, Quota { per_minute, per_day }).await
}

/// Adds the windows of the account that an explanation of refusals is about, and the state of its key.
/// Without a limiter they are left out.
pub(super) async fn add_limits(state: &AdminState, explanation: &mut Json) {
    let (account, key) = (&explanation["account"], &explanation["key"]);
    let mut limits = limits_of(state, account, key).await;
    if limits.is_err() {
        limits = limits_of(state, account, &Json::Null).await;
    }
    if let Ok(limits) = limits {
        explanation["limits"] = limits.into();
    }
}

fn method(name: &str) -> Result<AdminMethod, ApiError> {
    AdminMethod::find(name).ok_or(ApiError::Internal)
}

pub(super) const FIND_KEYS_PATH: &str = "/admin/v1/keys/find";

/// Maximum number of digests in a call.
const MAX_DIGESTS: usize = 100;

pub(super) async fn find_keys(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let mut record = CallRecord { method: Some("FindKeys".to_owned()), ..CallRecord::default() };
    let answered = async {
        let credentials = state.authenticate(request.headers(), request.extensions())?;
        let has_query = request.uri().query().is_some_and(|query| !query.is_empty());
        let members = json::members(&request_body::read_json(request).await?)?;
        let text = match &members[..] {
            [(name, Json::String(text))] if name == "text" && !has_query => text,
            _ => {
                let rule = "the body must have one field, text, a string, and the path no parameters";
                return Err(AdminApiError::from(ApiError::InvalidParameter(rule.to_owned().into())));
            }
        };
        let method = method("FindKeys")?;
        let keys = ApiKey::all_in(text.as_bytes());
        let mut answers = Vec::new();
        for request in find_requests(&keys) {
            let message = method.read(&request).map_err(|_| ApiError::Internal)?;
            let answer = state.call(&method, &message, &credentials, &mut record).await?;
            answers.push(method.body(&answer));
        }
        Ok(findings(&keys, &answers).to_string())
    };
    finished(StatusCode::OK, answered.await, record)
}

/// Returns the requests of `FindKeys` for these keys. There is always one, so that the core judges the
/// caller.
pub fn find_requests(keys: &[ApiKey]) -> Vec<Json> {
    let digests: Vec<_> = keys.iter().map(|key| key.digest().to_hex()).collect();
    let requests = (0..digests.len().max(1)).step_by(MAX_DIGESTS);
    requests
        .map(|start| json!({ "digests": digests[start..].iter().take(MAX_DIGESTS).collect::<Vec<_>>() }))
        .collect()
}

/// Returns what the answers to these requests say about each of the keys, in their order.
pub fn findings(keys: &[ApiKey], answers: &[Json]) -> Json {
    let found = answers.iter().filter_map(|answer| answer["keys"].as_array()).flatten();
    let found: HashMap<_, _> =
        found.filter_map(|found| Some((found["digest"].as_str()?.to_owned(), &found["key"]))).collect();
    let own_environment = answers.iter().find_map(|answer| answer["environment"].as_str());
    let finding = |key: &ApiKey| {
        let environment = key.environment();
        let mut finding = json!({ "prefix": environment.key_prefix(), "lastFour": key.last_four() });
        match found.get(&key.digest().to_hex()) {
            Some(record) => {
                finding["finding"] = "known".into();
                finding["key"] = (*record).clone();
                if record["state"] == "active" {
                    let id = record["id"].as_str().unwrap_or_default();
                    finding["revokeCommand"] = format!("petstore key revoke {id}").into();
                }
            }
            None if own_environment.is_some_and(|own| own != environment.name()) => {
                finding["finding"] = "other_environment".into();
            }
            None => finding["finding"] = "unknown".into(),
        }
        finding
    };
    json!({ "keys": keys.iter().map(finding).collect::<Vec<_>>() })
}

pub(super) const USAGE_CSV_PATH: &str = "/admin/v1/account-usage.csv";

/// Rows of a page.
const PAGE_SIZE: i32 = 100;

/// Line that names the columns of [`usage_csv`]. New ones are added at the end.
pub const USAGE_CSV_HEAD: &str =
    "date,accountId,account,plan,dayLimit,succeeded,clientErrors,refused,serverErrors,getPet,startTime\r\n";

/// Returns the rows of a page of `ListAccountUsage` as CSV, without the first line. No value needs quotes.
pub fn usage_csv(page: &Json) -> String {
    let rows = page["usage"].as_array().into_iter().flatten();
    let line = |row: &Json| {
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let start = text(&row["startTime"]); // in UTC, as its Z says
        let date = start.split_once('T').map_or(&*start, |(date, _)| date).to_owned();
        let own = ["accountId", "account", "plan", "dayLimit"].map(|name| text(&row[name]));
        let counts = ["succeeded", "clientErrors", "refused", "serverErrors", "getPet"];
        let counts = counts.map(|name| text(&row["counts"][name]));
        [vec![date], own.to_vec(), counts.to_vec(), vec![start]].concat().join(",") + "\r\n"
    };
    rows.map(line).collect()
}

/// A report that is being sent.
struct Report {
    state: Arc<AdminState>,
    method: AdminMethod,
    /// Request for the next page; `None` after the last one.
    next: Option<DynamicMessage>,
    credentials: HeaderMap,
}

impl Report {
    /// Returns the rows of the next page; `None` after the last one.
    async fn page(&mut self, record: &mut CallRecord) -> Result<Option<String>, AdminApiError> {
        let Some(mut message) = self.next.take() else { return Ok(None) };
        let answer = self.state.call(&self.method, &message, &self.credentials, record).await?;
        let page = self.method.body(&answer);
        if let Some(token) = page["nextPageToken"].as_str().filter(|token| !token.is_empty()) {
            message.set_field_by_name("page_token", Value::String(token.to_owned()));
            self.next = Some(message);
        }
        Ok(Some(usage_csv(&page)))
    }
}

pub(super) async fn get_usage_csv(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let mut record = CallRecord::default();
    let answered = async {
        let mut report = report(state, request).await?;
        let first = report.page(&mut record).await?;
        Ok((report, USAGE_CSV_HEAD.to_owned() + &first.unwrap_or_default()))
    };
    let (report, first) = match answered.await {
        Ok(begun) => begun,
        Err(error) => return finished(StatusCode::OK, Err(error), record),
    };
    // If a later page fails, the body breaks off without its end, which clients notice.
    let rest = stream::try_unfold(report, async |mut report| {
        let page = report.page(&mut CallRecord::default()).await?;
        Ok::<_, AdminApiError>(page.map(|page| (page, report)))
    });
    let body = stream::once(async { Ok(first) }).chain(rest).map(|page| page.map(Bytes::from));
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, r#"attachment; filename="account-usage.csv""#),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Extension(record), Body::from_stream(body)).into_response()
}

/// Returns the report that a request asks for. Its parameters are those of `ListAccountUsage`.
async fn report(state: Arc<AdminState>, request: Request) -> Result<Report, AdminApiError> {
    let credentials = state.authenticate(request.headers(), request.extensions())?;
    let method = method("ListAccountUsage")?;
    let query = request.uri().query().unwrap_or_default().to_owned();
    let binding = Binding { without: &["page_size", "page_token"], ..Binding::get(USAGE_CSV_PATH) };
    let body = body_of(request, &binding).await?;
    let mut message = binding.message(&method, &[], &query, &body)?;
    message.set_field_by_name("page_size", Value::I32(PAGE_SIZE));
    Ok(Report { state, method, next: Some(message), credentials })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_in_its_last_cell_the_moment_in_utc_at_which_its_period_begins() {
        let row = json!({
            "startTime": "2030-12-05T00:00:00Z",
            "account": "north",
            "accountId": 7,
            "plan": "pro",
            "dayLimit": 100_000,
            "counts": { "succeeded": 5, "clientErrors": 4, "refused": 3, "serverErrors": 2, "getPet": 1 },
        });
        assert_eq!(
            USAGE_CSV_HEAD.to_owned() + &usage_csv(&json!({ "usage": [row] })),
            "date,accountId,account,plan,dayLimit,succeeded,clientErrors,refused,serverErrors,getPet,\
             startTime\r\n2030-12-05,7,north,pro,100000,5,4,3,2,1,2030-12-05T00:00:00Z\r\n"
        );
    }
}
