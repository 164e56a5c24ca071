//! Bans of keys.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::{self as pb, create_ban_request::End};

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AdminList, KeyId, PetStoreError, StatedReason, Violation},
};

/// Maximum duration of a ban. To refuse a key for longer, revoke it.
const LONGEST: Duration = Duration::from_hours(24 * 366);

pub(super) async fn create(
    core: &Core,
    caller: Caller,
    request: pb::CreateBanRequest,
) -> Result<pb::CreateBanResponse, PetStoreError> {
    let id = convert::key_id(&request.key_id)?;
    let reason = StatedReason::parse_optional(&request.reason).map_err(convert::refused)?;
    let length = match request.end {
        None => return Err(convert::refused(Violation::new("duration", "is required, or end_time"))),
        Some(End::Duration(length)) => convert::duration("duration", length)?,
        Some(End::EndTime(end)) => {
            let end = convert::moment("end_time", end)?;
            Duration::from_millis(end.0.saturating_sub(caller.now.0))
        }
    };
    if length.is_zero() || length > LONGEST {
        return Err(convert::refused(Violation::new(
            "end",
            "must be in the future, at most 366 days from now",
        )));
    }
    let ban = core.store.add_ban(&caller.actor, id, length, reason, caller.now).await?;
    Ok(pb::CreateBanResponse { ban: Some(ban) })
}

pub(super) async fn lift(
    core: &Core,
    caller: Caller,
    request: pb::LiftBanRequest,
) -> Result<pb::LiftBanResponse, PetStoreError> {
    let id = convert::key_id(&request.key_id)?;
    core.store.lift_ban(&caller.actor, id, caller.now).await?;
    Ok(pb::LiftBanResponse {})
}

pub(super) async fn list(
    core: &Core,
    caller: Caller,
    request: pb::ListBansRequest,
) -> Result<pb::ListBansResponse, PetStoreError> {
    let tokens = AdminList::Bans.with(&request.account);
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, parse_position)?;
    let account = match convert::account_filter(&request.account)? {
        Some(name) => Some(core.store.find_account(&name).await?.id),
        None => None,
    };
    let limit = Some(size.get() as u64 + 1);
    let (rows, total_size) = core.store.list_bans(caller.now, account, after, limit).await?;
    let (bans, next_page_token) =
        convert::cut(rows, size, &tokens, |(from, ban)| format!("{}_{}", from.0, ban.key_id));
    let bans = bans.into_iter().map(|(_, ban)| ban).collect();
    Ok(pb::ListBansResponse { bans, next_page_token, total_size })
}

/// Parses the beginning of a ban and its key.
fn parse_position(position: &str) -> Option<(UnixMillis, KeyId)> {
    let (from, key_id) = position.split_once('_')?;
    Some((UnixMillis(from.parse().ok()?), key_id.parse().ok()?))
}
