//! API keys.

use std::time::Duration;

use petstore_api_key::Environment;
use petstore_proto::admin::v1::{
    self as pb, create_key_request::Expiration, rotate_key_request::Expiration as NewExpiration,
};

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AdminList, ApiKeyRecord, Ban, IssuedKey, KeyId, KeyLabel, NewExpiry, PetStoreError, Violation},
};

/// Time for which an old key stays valid if the call names none.
const GRACE: Duration = Duration::from_hours(24);

pub(super) async fn create(
    core: &Core,
    caller: Caller,
    request: pb::CreateKeyRequest,
) -> Result<pb::CreateKeyResponse, PetStoreError> {
    let account = convert::account_name(&request.account)?;
    let label = KeyLabel::parse_optional(&request.label).map_err(convert::refused)?;
    let environment = environment(core, convert::environment(request.environment)?)?;
    let expires_at = match request.expiration {
        None => None,
        Some(Expiration::ExpireTime(at)) => Some(convert::moment("expire_time", at)?),
        Some(Expiration::Ttl(ttl)) => {
            Some(convert::after("ttl", caller.now, convert::duration("ttl", ttl)?)?)
        }
    };
    let issued = core.store.create_key(&caller.actor, &account, label, environment, expires_at, caller.now);
    let IssuedKey { record, key } = issued.await?;
    let shown = key.expose().to_owned();
    Ok(pb::CreateKeyResponse { key: Some(convert::key(&record, None, caller.now)), api_key: shown })
}

/// Returns the environment of a new key. A core that serves one environment refuses the other.
fn environment(core: &Core, asked: Option<Environment>) -> Result<Environment, PetStoreError> {
    match (core.environment, asked) {
        (Some(own), Some(asked)) if own != asked => {
            Err(convert::refused(Violation::new("environment", "must be the one that the core serves")))
        }
        (Some(own), _) => Ok(own),
        (None, asked) => Ok(asked.unwrap_or(Environment::Production)),
    }
}

pub(super) async fn get(
    core: &Core,
    caller: Caller,
    request: pb::GetKeyRequest,
) -> Result<pb::GetKeyResponse, PetStoreError> {
    let record = core.store.find_key(convert::key_id(&request.key_id)?).await?;
    Ok(pb::GetKeyResponse { key: with_bans(core, &caller, &[record]).await?.pop() })
}

pub(super) async fn list(
    core: &Core,
    caller: Caller,
    request: pb::ListKeysRequest,
) -> Result<pb::ListKeysResponse, PetStoreError> {
    let tokens = AdminList::Keys.with(&request.account);
    let (size, after) =
        convert::page(&tokens, request.page_size, &request.page_token, |position| position.parse().ok())?;
    let account = convert::account_filter(&request.account)?;
    let account = match account {
        Some(name) => Some(core.store.find_account(&name).await?.id),
        None => None,
    };
    let (rows, total_size) = core.store.list_keys(account, after, size).await?;
    let (keys, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.to_string());
    let keys = with_bans(core, &caller, &keys).await?;
    Ok(pb::ListKeysResponse { keys, next_page_token, total_size })
}

/// Returns the keys with their bans in force.
async fn with_bans(
    core: &Core,
    caller: &Caller,
    keys: &[ApiKeyRecord],
) -> Result<Vec<pb::Key>, PetStoreError> {
    let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
    let bans = core.store.bans_in_force(&ids, caller.now).await?;
    let ban_of = |id| bans.iter().find(|(key_id, _)| *key_id == id).map(|(_, ban): &(KeyId, Ban)| ban);
    Ok(keys.iter().map(|key| convert::key(key, ban_of(key.id), caller.now)).collect())
}

pub(super) async fn rotate(
    core: &Core,
    caller: Caller,
    request: pb::RotateKeyRequest,
) -> Result<pb::RotateKeyResponse, PetStoreError> {
    let id = convert::key_id(&request.key_id)?;
    let grace = request.grace.map(|grace| convert::duration("grace", grace)).transpose()?.unwrap_or(GRACE);
    convert::after("grace", caller.now, grace)?;
    let environment = convert::environment(request.environment)?;
    let expiry = match request.expiration {
        None => NewExpiry::SameLifetime,
        Some(NewExpiration::ExpireTime(at)) => NewExpiry::At(convert::moment("expire_time", at)?),
        Some(NewExpiration::Ttl(ttl)) => NewExpiry::At(caller.now.plus(convert::duration("ttl", ttl)?)),
        Some(NewExpiration::Never(true)) => NewExpiry::Never,
        Some(NewExpiration::Never(false)) => {
            return Err(convert::refused(Violation::new("never", "must be true")));
        }
    };
    let rotated = core.store.rotate_key(&caller.actor, id, grace, environment, expiry, caller.now);
    let (issued, old) = rotated.await?;
    Ok(pb::RotateKeyResponse {
        key: Some(convert::key(&issued.record, None, caller.now)),
        api_key: issued.key.expose().to_owned(),
        old_key: with_bans(core, &caller, &[old]).await?.pop(),
    })
}

pub(super) async fn revoke(
    core: &Core,
    caller: Caller,
    request: pb::RevokeKeyRequest,
) -> Result<pb::RevokeKeyResponse, PetStoreError> {
    let id = convert::key_id(&request.key_id)?;
    let record = core.store.revoke_key(&caller.actor, id, caller.now).await?;
    Ok(pb::RevokeKeyResponse { key: with_bans(core, &caller, &[record]).await?.pop() })
}
