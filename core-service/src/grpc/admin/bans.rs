//! Bans of keys.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::{
    CreateBanRequest, CreateBanResponse, LiftBanRequest, LiftBanResponse, ListBansRequest, ListBansResponse,
    create_ban_request::End,
};

use super::{caller::Call, convert};
use crate::{
    domain::{KeyId, PageTokens, Remark},
    grpc::call::Result,
};

pub(super) async fn create(call: Call, request: CreateBanRequest) -> Result<CreateBanResponse> {
    let id = convert::key_id(&request.key_id)?;
    let reason = Remark::reason(&request.reason).map_err(convert::refused)?;
    let length = match request.end {
        None => return Err(convert::refuse("duration", "is required, or end_time")),
        Some(End::Duration(length)) => convert::duration("duration", length)?,
        Some(End::EndTime(end)) => {
            let end = convert::moment("end_time", end)?;
            end.since(call.now)
        }
    };
    // To refuse a key for longer, an operator revokes it.
    if length.is_zero() || length > Duration::from_hours(24 * 366) {
        return Err(convert::refuse("end_time", "must be in the future, at most 366 days from now"));
    }
    let ban = call.core.store.add_ban(&call.actor, id, length, reason, call.now).await?;
    Ok(CreateBanResponse { ban: Some(ban) })
}

pub(super) async fn lift(call: Call, request: LiftBanRequest) -> Result<LiftBanResponse> {
    let id = convert::key_id(&request.key_id)?;
    call.core.store.lift_ban(&call.actor, id, call.now).await?;
    Ok(LiftBanResponse {})
}

pub(super) async fn list(call: Call, request: ListBansRequest) -> Result<ListBansResponse> {
    let tokens = PageTokens::new('b', &request.account);
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, parse_position)?;
    let account = call.account_id(&request.account).await?;
    let limit = Some(size.get() as u64 + 1);
    let (rows, total_size) = call.core.store.list_bans(call.now, account, after, limit).await?;
    let (bans, next_page_token) =
        convert::cut(rows, size, &tokens, |(from, ban)| format!("{}_{}", from.0, ban.key_id));
    let bans = bans.into_iter().map(|(_, ban)| ban).collect();
    Ok(ListBansResponse { bans, next_page_token, total_size })
}

/// Parses the beginning of a ban and its key.
fn parse_position(position: &str) -> Option<(UnixMillis, KeyId)> {
    let (from, key_id) = position.split_once('_')?;
    Some((UnixMillis(from.parse().ok()?), key_id.parse().ok()?))
}
