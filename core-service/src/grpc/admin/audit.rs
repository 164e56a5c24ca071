//! Changes made by operators.

use petstore_proto::admin::v1::{ListAuditEventsRequest, ListAuditEventsResponse};

use super::{caller::Call, convert};
use crate::{
    domain::{AccountName, ListAuditEvents, PageTokens},
    grpc::call::Result,
};

pub(super) async fn list(call: Call, request: ListAuditEventsRequest) -> Result<ListAuditEventsResponse> {
    let filters =
        (&request.operator, &request.account, &request.key_id, request.start_time, request.end_time);
    let tokens = PageTokens::new('e', &filters);
    let (size, before) =
        convert::page(&tokens, request.page_size, &request.page_token, |it| it.parse().ok())?;
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    // `local` is a valid name here, but cannot be given to an operator.
    let name = |field, text| given(text).map(|name| AccountName::parse_field(field, &name)).transpose();
    let list = ListAuditEvents {
        size,
        before,
        operator: name("operator", &request.operator).map_err(convert::refused)?.map(|name| name.to_string()),
        account: name("account", &request.account).map_err(convert::refused)?.map(|name| name.to_string()),
        key_id: given(&request.key_id).map(|id| convert::key_id(&id)).transpose()?.map(|id| id.to_string()),
        since: request.start_time.map(|start| convert::moment("start_time", start)).transpose()?,
        until: request.end_time.map(|end| convert::moment("end_time", end)).transpose()?,
    };
    let (rows, total_size) = call.core.store.list_audit_events(list).await?;
    let (events, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.to_string());
    Ok(ListAuditEventsResponse { events, next_page_token, total_size })
}
