//! Bans of keys.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::{self as pb, create_ban_request::End};

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AdminList, BannedKey, KeyId, PetStoreError, StatedReason, Violation},
};

/// Maximum duration of a ban. To refuse a key for longer, revoke it.
const LONGEST: Duration = Duration::from_hours(24 * 366);

fn wire(record: &BannedKey) -> pb::Ban {
    convert::ban(record.key_id, &record.account, &record.ban)
}

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
    let record = core.store.bans().by(&caller.actor).add(id, length, reason, caller.now).await?;
    Ok(pb::CreateBanResponse { ban: Some(wire(&record)) })
}

pub(super) async fn lift(
    core: &Core,
    caller: Caller,
    request: pb::LiftBanRequest,
) -> Result<pb::LiftBanResponse, PetStoreError> {
    let id = convert::key_id(&request.key_id)?;
    core.store.bans().by(&caller.actor).lift(id, caller.now).await?;
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
        Some(name) => Some(core.store.accounts().find(&name).await?.id),
        None => None,
    };
    let limit = Some(size.get() as u64 + 1);
    let (rows, total) = core.store.bans().page(caller.now, account, after, limit).await?;
    let (bans, next_page_token) =
        convert::cut(rows, size, &tokens, |last| format!("{}_{}", last.ban.from.0, last.key_id));
    let bans = bans.iter().map(wire).collect();
    Ok(pb::ListBansResponse { bans, next_page_token, total_size: convert::total(total) })
}

/// Parses the beginning of a ban and its key.
fn parse_position(position: &str) -> Option<(UnixMillis, KeyId)> {
    let (from, key_id) = position.split_once('_')?;
    Some((UnixMillis(from.parse().ok()?), key_id.parse().ok()?))
}
