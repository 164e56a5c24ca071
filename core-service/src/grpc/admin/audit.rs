//! What operators changed.

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
    let (size, before) =
        convert::numbered_page(AdminList::AuditEvents, request.page_size, &request.page_token)?;
    let filter = |text: String| Some(text).filter(|text| !text.is_empty());
    let list = ListAuditEvents {
        size,
        before,
        operator: filter(request.operator),
        account: filter(request.account),
        key_id: filter(request.key_id),
        since: request.start_time.map(|start| convert::moment("start_time", start)).transpose()?,
        until: request.end_time.map(|end| convert::moment("end_time", end)).transpose()?,
    };
    let (rows, total) = core.store.audit().list(list).await?;
    let (events, next_page_token) =
        convert::cut(rows, size, AdminList::AuditEvents, |last| last.id.to_string());
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
