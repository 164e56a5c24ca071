//! Rehearsals of the removal of getPet.

use petstore_core::accounts::store::brownouts::Brownout;
use petstore_proto::admin::v1::{
    self as pb, CancelBrownoutRequest, CancelBrownoutResponse, CreateBrownoutRequest, CreateBrownoutResponse,
    ListBrownoutsRequest, ListBrownoutsResponse,
};

use super::{caller::Call, convert};
use crate::error::Result;

pub(super) async fn create(call: Call, request: CreateBrownoutRequest) -> Result<CreateBrownoutResponse> {
    let account = convert::account_filter(&request.account)?;
    let start = request.start_time.map(|start| convert::moment("startTime", start)).transpose()?;
    let length = request.duration.ok_or_else(|| convert::refuse("duration", "is required"))?;
    let period = (start.unwrap_or(call.now), convert::duration("duration", length)?);
    let brownout = call.store.plan_brownout(&call.actor, account, period, call.now).await?;
    Ok(CreateBrownoutResponse { brownout: Some(message(&brownout)) })
}

pub(super) async fn cancel(call: Call, request: CancelBrownoutRequest) -> Result<CancelBrownoutResponse> {
    call.store.cancel_brownout(&call.actor, request.id, call.now).await?;
    Ok(CancelBrownoutResponse {})
}

pub(super) async fn list(call: Call, _: ListBrownoutsRequest) -> Result<ListBrownoutsResponse> {
    let brownouts = call.accounts().list_brownouts(call.now).await?;
    Ok(ListBrownoutsResponse { brownouts: brownouts.iter().map(message).collect() })
}

fn message(brownout: &Brownout) -> pb::Brownout {
    pb::Brownout {
        id: brownout.id,
        account: brownout.account.as_ref().map(|(_, name)| name.to_string()).unwrap_or_default(),
        operation_id: "getPet".to_owned(),
        start_time: Some(brownout.from.to_timestamp()),
        end_time: Some(brownout.until.to_timestamp()),
    }
}
