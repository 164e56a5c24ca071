//! Usage of all accounts as CSV: `GET /admin/v1/account-usage.csv`. The core is asked for one page at a time,
//! as the client reads, so that a report of any size takes the memory of one page.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream};
use http::{StatusCode, header};
use petstore_gateway::ApiError;
use prost_reflect::{DynamicMessage, Value};
use serde_json::Value as Json;

use super::{
    AdminState, body_of,
    call::{CallRecord, Credentials},
    error::AdminError,
    finished,
    method::{AdminMethod, Binding},
};

pub(super) const PATH: &str = "/admin/v1/account-usage.csv";

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
    credentials: Credentials,
}

impl Report {
    /// Returns the rows of the next page; `None` after the last one.
    async fn page(&mut self, record: &mut CallRecord) -> Result<Option<String>, AdminError> {
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

pub(super) async fn get(State(state): State<Arc<AdminState>>, request: Request) -> Response {
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
        Ok::<_, AdminError>(page.map(|page| (page, report)))
    });
    let body = stream::once(async { Ok(first) }).chain(rest).map(|page| page.map(Bytes::from));
    let mut response = Body::from_stream(body).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, r#"attachment; filename="account-usage.csv""#),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    response.extensions_mut().insert(record);
    response
}

/// Returns the report that a request asks for. Its parameters are those of `ListAccountUsage`.
async fn report(state: Arc<AdminState>, request: Request) -> Result<Report, AdminError> {
    let credentials = state.authenticate(request.headers(), request.extensions())?;
    let method = AdminMethod::find("ListAccountUsage").ok_or(ApiError::Internal)?;
    let query = request.uri().query().unwrap_or_default().to_owned();
    let binding = Binding { without: &["page_size", "page_token"], ..Binding::get(PATH) };
    let body = body_of(request, &binding).await?;
    let mut message = binding.message(&method, &[], &query, &body)?;
    message.set_field_by_name("page_size", Value::I32(PAGE_SIZE));
    Ok(Report { state, method, next: Some(message), credentials })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
