//! API keys, their bans, and the handover from a rotated key to its successor.

use std::time::Duration;

use petstore_caller::api_key::{Environment, KeyDigest};
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        ApiKeyRecord, Ban, IssuedKey, KeyId, KeyProperties, KeyState, ListKeys, Minute, NewExpiry, Remark,
        store::{MinutesOf, bans, keys},
    },
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{
    self as pb, CreateBanRequest, CreateBanResponse, CreateKeyRequest, CreateKeyResponse, FindKeysRequest,
    FindKeysResponse, FoundKey, GetKeyHandoverRequest, GetKeyHandoverResponse, GetKeyRequest, GetKeyResponse,
    HandoverState, LiftBanRequest, LiftBanResponse, ListBansRequest, ListBansResponse, ListKeysRequest,
    ListKeysResponse, RevokeKeyRequest, RevokeKeyResponse, RotateKeyRequest, RotateKeyResponse,
    create_ban_request::End, create_key_request::Expiration, rotate_key_request::Expiration as NewExpiration,
};
use serde_json::json;

use super::{caller::Call, convert, operators};
use crate::{
    domain::{Audited, PageTokens, ban_json},
    error::Result,
};

pub(super) async fn create(call: Call, request: CreateKeyRequest) -> Result<CreateKeyResponse> {
    let account = convert::account_name(&request.account)?;
    let label = Remark::label(&request.label).map_err(convert::refused)?;
    let environment = environment(&call, convert::environment(request.environment)?)?;
    let scope = convert::scope(request.access, &request.allowed_addresses)?;
    let expires_at = match request.expiration {
        None => None,
        Some(Expiration::ExpireTime(at)) => Some(convert::moment("expireTime", at)?),
        Some(Expiration::Ttl(ttl)) => Some(operators::expiry(&call, ttl)?),
    };
    let properties = KeyProperties { label, scope, expires_at, replaces: None };
    let issued = call.change(move |change| {
        Box::pin(async move {
            let issued = keys::create(change.session, &account, environment, properties, change.now).await?;
            change.record("CreateKey", None, &issued.record).await?;
            Ok(issued)
        })
    });
    let IssuedKey { record, key } = issued.await?;
    let shown = key.expose().to_owned();
    Ok(CreateKeyResponse { key: Some(convert::key(&record, None, call.now)), api_key: shown })
}

/// Returns the environment of a new key. A core that serves one environment refuses the other.
fn environment(call: &Call, asked: Option<Environment>) -> Result<Environment> {
    match (call.core.environment, asked) {
        (Some(own), Some(asked)) if own != asked => {
            Err(convert::refuse("environment", "must be the one that the core serves"))
        }
        (Some(own), _) => Ok(own),
        (None, asked) => Ok(asked.unwrap_or(Environment::Production)),
    }
}

pub(super) async fn get(call: Call, request: GetKeyRequest) -> Result<GetKeyResponse> {
    let record = call.accounts().find_key(convert::key_id(&request.key_id)?).await?;
    Ok(GetKeyResponse { key: with_bans(&call, &[record]).await?.pop() })
}

pub(super) async fn list(call: Call, request: ListKeysRequest) -> Result<ListKeysResponse> {
    let ListKeysRequest { page_size, page_token, account, unused_for, expiring_within } = request;
    let tokens = match (unused_for, expiring_within) {
        (None, None) => PageTokens::new('k', &account), // as release 1.0.0 has them
        times => PageTokens::new('k', &(&account, times)),
    };
    let (size, after) = convert::page(&tokens, page_size, &page_token, |position| position.parse().ok())?;
    let unused_for = unused_for.map(|time| convert::duration("unusedFor", time)).transpose()?;
    let expiring_within =
        expiring_within.map(|time| convert::duration("expiringWithin", time)).transpose()?;
    let list = ListKeys {
        size,
        after,
        account: call.account_id(&account).await?,
        unused_since: unused_for.map(|time| call.now.minus(time)),
        expiring_until: expiring_within.map(|time| call.now.plus(time).min(UnixMillis::LAST)),
        now: call.now,
    };
    let (rows, total_size) = call.accounts().list_keys(list).await?;
    let (keys, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.to_string());
    let keys = with_bans(&call, &keys).await?;
    Ok(ListKeysResponse { keys, next_page_token, total_size })
}

pub(super) async fn find(call: Call, request: FindKeysRequest) -> Result<FindKeysResponse> {
    /// Maximum number of digests in a request.
    const MAX_DIGESTS: usize = 100;
    let digests: Option<Vec<_>> =
        request.digests.iter().map(|written| KeyDigest::from_hex(written)).collect();
    let Some(digests) = digests.filter(|digests| digests.len() <= MAX_DIGESTS) else {
        return Err(convert::refuse("digests", "must be at most 100, each of 64 hexadecimal digits"));
    };
    let found = call.accounts().find_keys(&digests).await?;
    let (digests, keys): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let keys = digests.iter().zip(with_bans(&call, &keys).await?);
    let environment = call.core.environment.map_or(pb::Environment::Unspecified, convert::environment_of);
    Ok(FindKeysResponse {
        keys: keys.map(|(digest, key)| FoundKey { digest: digest.to_hex(), key: Some(key) }).collect(),
        environment: environment.into(),
    })
}

/// Returns the keys with their bans in force.
pub(super) async fn with_bans(call: &Call, keys: &[ApiKeyRecord]) -> Result<Vec<pb::Key>> {
    let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
    let bans = call.accounts().bans_in_force(&ids, call.now).await?;
    let ban_of = |id| bans.iter().find(|(key_id, _)| *key_id == id).map(|(_, ban): &(KeyId, Ban)| ban);
    Ok(keys.iter().map(|key| convert::key(key, ban_of(key.id), call.now)).collect())
}

/// Creates a key of the same account, environment, label and scope, which replaces another key. The old key
/// expires after `grace`, and never later than it would have. If an environment is given, a key of another
/// one is left unchanged.
pub(super) async fn rotate(call: Call, request: RotateKeyRequest) -> Result<RotateKeyResponse> {
    let id = convert::key_id(&request.key_id)?;
    let grace = request.grace.map(|grace| convert::duration("grace", grace)).transpose()?;
    let grace = grace.unwrap_or(Duration::from_hours(24));
    convert::after("grace", call.now, grace)?;
    let environment = convert::environment(request.environment)?;
    let expiry = match request.expiration {
        None => NewExpiry::SameLifetime,
        Some(NewExpiration::ExpireTime(at)) => NewExpiry::At(convert::moment("expireTime", at)?),
        Some(NewExpiration::Ttl(ttl)) => NewExpiry::At(operators::expiry(&call, ttl)?),
        Some(NewExpiration::Never(true)) => NewExpiry::Never,
        Some(NewExpiration::Never(false)) => return Err(convert::refuse("never", "must be true")),
    };
    let rotated = call.change(move |change| {
        Box::pin(async move {
            let (old, now) = (keys::find(change.session, id).await?, change.now);
            if environment.is_some_and(|environment| environment != old.environment) {
                let (id, environment) = (id.to_string(), old.environment);
                return Err(PetStoreError::KeyOfAnotherEnvironment { id, environment }.into());
            }
            let first_expiry = change.first_expiry(&old).await?;
            let created = ApiKeyRecord { expires_at: first_expiry, ..old.clone() };
            let expires_at = expiry.of(&created, now);
            let (new, expiring) = keys::replace(change.session, &old, grace, expires_at, now).await?;
            let after = json!({ "old": expiring.json(), "new": new.record.json() });
            change.record_event("RotateKey", old.subject(), [Some(old.json()), Some(after)]).await?;
            Ok((new, expiring))
        })
    });
    let (issued, old) = rotated.await?;
    Ok(RotateKeyResponse {
        key: Some(convert::key(&issued.record, None, call.now)),
        api_key: issued.key.expose().to_owned(),
        old_key: with_bans(&call, &[old]).await?.pop(),
    })
}

pub(super) async fn revoke(call: Call, request: RevokeKeyRequest) -> Result<RevokeKeyResponse> {
    let id = convert::key_id(&request.key_id)?;
    let revoked = call.change(move |change| {
        Box::pin(async move {
            let (before, after) = keys::revoke(change.session, id, change.now).await?;
            if after != before {
                change.record("RevokeKey", Some(&before), &after).await?;
            }
            Ok(after)
        })
    });
    let record = revoked.await?;
    Ok(RevokeKeyResponse { key: with_bans(&call, &[record]).await?.pop() })
}

/// Bans a key from now on. The new ban replaces any other. The key's owner is shown the reason. The next ban
/// depends on its length, as after any other.
pub(super) async fn ban(call: Call, request: CreateBanRequest) -> Result<CreateBanResponse> {
    let id = convert::key_id(&request.key_id)?;
    let reason = Remark::reason(&request.reason).map_err(convert::refused)?;
    let (field, length) = match request.end {
        None => return Err(convert::refuse("duration", "is required, or endTime")),
        Some(End::Duration(length)) => ("duration", convert::duration("duration", length)?),
        Some(End::EndTime(end)) => ("endTime", convert::moment("endTime", end)?.since(call.now)),
    };
    // To refuse a key for longer, an operator revokes it.
    if length.is_zero() || length > Duration::from_hours(24 * 366) {
        return Err(convert::refuse(field, "must end in the future, at most 366 days from now"));
    }
    let banned = call.change(move |change| {
        Box::pin(async move {
            let (key, before, ban) = bans::impose(change.session, id, length, reason, change.now).await?;
            let states = [before.as_ref().map(ban_json), Some(ban_json(&ban))];
            change.record_event("CreateBan", key.subject(), states).await?;
            Ok((key.account, ban))
        })
    });
    let (account, ban) = banned.await?;
    Ok(CreateBanResponse { ban: Some(convert::ban(id, &account, &ban)) })
}

/// Lifts a key's ban and resets its history, so that the next ban is as short as a first one. Applies also to
/// bans that were imposed earlier but are not known here yet.
pub(super) async fn lift_ban(call: Call, request: LiftBanRequest) -> Result<LiftBanResponse> {
    let id = convert::key_id(&request.key_id)?;
    let lifted = call.change(move |change| {
        Box::pin(async move {
            let (key, before) = bans::lift(change.session, id, change.now).await?;
            // A gateway may not have reported the ban of an active key yet, which is lifted too.
            if before.is_none() && key.state(change.now) != KeyState::Active {
                return Ok(());
            }
            let states = [before.as_ref().map(ban_json), None];
            Ok(change.record_event("LiftBan", key.subject(), states).await?)
        })
    });
    lifted.await?;
    Ok(LiftBanResponse {})
}

pub(super) async fn bans(call: Call, request: ListBansRequest) -> Result<ListBansResponse> {
    let tokens = PageTokens::new('b', &request.account);
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, parse_position)?;
    let account = call.account_id(&request.account).await?;
    let limit = Some(size.get() as u64 + 1);
    let (rows, total_size) = call.accounts().list_bans(call.now, account, after, limit).await?;
    let (bans, next_page_token) =
        convert::cut(rows, size, &tokens, |(key, _, ban)| format!("{}_{key}", ban.from.0));
    let bans = bans.iter().map(|(key, account, ban)| convert::ban(*key, account, ban)).collect();
    Ok(ListBansResponse { bans, next_page_token, total_size })
}

/// Parses the beginning of a ban and its key.
fn parse_position(position: &str) -> Option<(UnixMillis, KeyId)> {
    let (from, key_id) = position.split_once('_')?;
    Some((UnixMillis(from.parse().ok()?), key_id.parse().ok()?))
}

/// Time without a request after which a key counts as abandoned. A client that works once a day is seen in
/// it.
const SILENCE: Duration = Duration::from_hours(24);

/// Returns how far the clients of a rotated key have moved to the key that replaces it.
pub(super) async fn get_key_handover(
    call: Call,
    request: GetKeyHandoverRequest,
) -> Result<GetKeyHandoverResponse> {
    let key = call.accounts().find_key(convert::key_id(&request.key_id)?).await?;
    let (old, new) = match (call.accounts().successor_of(key.id).await?, key.replaces) {
        (Some(new), _) => (key, new),
        (None, Some(old)) => (call.accounts().find_key(old).await?, key),
        (None, None) => {
            let sentence = format!("key {} neither replaces a key nor was replaced", key.id);
            let state = HandoverState::NotRotated.into();
            return Ok(GetKeyHandoverResponse { state, sentence, ..GetKeyHandoverResponse::default() });
        }
    };
    let (first_use, new_last, new_requests) = use_of(&call, &new).await?;
    let (_, old_last, old_requests) = use_of(&call, &old).await?;
    let [old_state, new_state] = [&old, &new].map(|key| key.state(call.now));
    let silent_at = old_last.map(|last| last.plus(SILENCE)).filter(|at| *at > call.now);
    let (state, verdict) = if old_state != KeyState::Active {
        (HandoverState::Ended, format!("the old key is {old_state} already"))
    } else if new_state != KeyState::Active {
        (HandoverState::NotYetSafe, format!("not yet safe to revoke, the new key is {new_state}"))
    } else if new_last.is_none() {
        (HandoverState::NotYetSafe, "not yet safe to revoke, no request has used the new key".to_owned())
    } else if let Some(at) = silent_at {
        (HandoverState::NotYetSafe, format!("not yet safe to revoke, safe if it stays unused until {at}"))
    } else {
        (HandoverState::Safe, "safe to revoke".to_owned())
    };
    let [of_new, of_old] = [new_last, old_last].map(|last| last.map_or("never".into(), |at| at.to_string()));
    let mut shown = with_bans(&call, &[old, new]).await?.into_iter();
    Ok(GetKeyHandoverResponse {
        state: state.into(),
        old_key: shown.next(),
        new_key: shown.next(),
        new_first_use_time: first_use.map(UnixMillis::to_timestamp),
        old_requests,
        new_requests,
        sentence: format!(
            "new key last used: {of_new}, old key last used: {of_old} ({old_requests} of {} requests in the \
             last hour): {verdict}",
            old_requests + new_requests
        ),
    })
}

/// Returns the first use of a key, if the minutes that are stored reach back to its creation, the last one,
/// and the number of requests in the last 60 minutes.
async fn use_of(
    call: &Call,
    key: &ApiKeyRecord,
) -> Result<(Option<UnixMillis>, Option<UnixMillis>, i64), PetStoreError> {
    let of = MinutesOf { account: Some(key.account_id), key_id: Some(key.id), by_key: false };
    let this_minute = Minute::containing(call.now);
    let since = this_minute.minus(Minute::PER_DAY - 1);
    let minutes = call.accounts().usage_by_minute(of, since, Minute::PER_DAY.unsigned_abs()).await?;
    let in_last_hour = minutes.iter().filter(|it| it.minute > this_minute.minus(60));
    let is_young = Minute::containing(key.created_at) >= since;
    let first = minutes.first().filter(|_| is_young).map(|it| it.minute.start().max(key.created_at));
    let last_minute = minutes.last().map(|it| it.minute.start());
    Ok((first, key.last_used_at.max(last_minute), in_last_hour.map(|it| it.counts.total()).sum()))
}
