//! Owners of the keys in a text: `POST /admin/v1/keys/find`. A text may be a leaked file, so the keys in it
//! go no further than this process: the core gets their digests, and the answer has their last four
//! characters.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use petstore_caller::api_key::ApiKey;
use petstore_gateway::{ApiError, request_body};
use serde_json::{Value, json};

use super::{AdminState, call::CallRecord, error::AdminError, finished, json, method::AdminMethod};

pub(super) const PATH: &str = "/admin/v1/keys/find";

/// Maximum number of digests in a call.
const MAX_DIGESTS: usize = 100;

pub(super) async fn post(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let mut record = CallRecord { method: Some("FindKeys".to_owned()), ..CallRecord::default() };
    let answered = async {
        let credentials = state.authenticate(request.headers(), request.extensions())?;
        let members = json::members(&request_body::read_json(request).await?)?;
        let [(name, Value::String(text))] = members.as_slice() else { return Err(no_text()) };
        if name != "text" {
            return Err(no_text());
        }
        let method = AdminMethod::find("FindKeys").ok_or(ApiError::Internal)?;
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

fn no_text() -> AdminError {
    ApiError::InvalidParameter("the body must have one field, text, a string".to_owned().into()).into()
}

/// Returns the requests of `FindKeys` for these keys. There is always one, so that the core judges the
/// caller.
pub fn find_requests(keys: &[ApiKey]) -> Vec<Value> {
    let digests: Vec<_> = keys.iter().map(|key| key.digest().to_hex()).collect();
    let requests = (0..digests.len().max(1)).step_by(MAX_DIGESTS);
    requests
        .map(|start| json!({ "digests": digests[start..].iter().take(MAX_DIGESTS).collect::<Vec<_>>() }))
        .collect()
}

/// Returns what the answers to these requests say about each of the keys, in their order.
pub fn findings(keys: &[ApiKey], answers: &[Value]) -> Value {
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
