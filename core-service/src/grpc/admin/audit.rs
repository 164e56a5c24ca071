//! Changes made by operators.

use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AccountName, AdminList, AuditEvent, ListAuditEvents, OperatorName, PetStoreError},
};

pub(super) async fn list(
    core: &Core,
    _: Caller,
    request: pb::ListAuditEventsRequest,
) -> Result<pb::ListAuditEventsResponse, PetStoreError> {
    let filters =
        (&request.operator, &request.account, &request.key_id, request.start_time, request.end_time);
    let tokens = AdminList::AuditEvents.with(&filters);
    let (size, before) = convert::page(&tokens, request.page_size, &request.page_token, convert::number)?;
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    // `local` is a valid name here. It only cannot be given to an operator.
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
    let (rows, total) = core.store.audit().list(list).await?;
    let (events, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.to_string());
    let events = events.into_iter().map(wire).collect();
    Ok(pb::ListAuditEventsResponse { events, next_page_token, total_size: convert::total(total) })
}

fn wire(event: AuditEvent) -> pb::AuditEvent {
    pb::AuditEvent {
        id: event.id,
        create_time: Some(convert::timestamp(event.created_at)),
        operator: event.operator.to_string(),
        client_address: event.client_address,
        action: event.action,
        account: event.account.as_ref().map(AccountName::to_string).unwrap_or_default(),
        key_id: event.key_id.unwrap_or_default(),
        target_operator: event.target_operator.as_ref().map(OperatorName::to_string).unwrap_or_default(),
        before_json: event.before.unwrap_or_default(),
        after_json: event.after.unwrap_or_default(),
    }
}
