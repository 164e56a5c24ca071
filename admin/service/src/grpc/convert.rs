//! Conversions between protobuf messages and domain types.

use std::time::Duration;

use petstore_caller::api_key::Environment;
use petstore_caller::client_address::AllowedAddresses;
use petstore_clock::{Timestamp, UnixMillis};
use petstore_core::{
    accounts::{
        Account, AccountName, ApiKeyRecord, Ban, KeyId, KeyScope, KeyState, Plan, Quota, Remark,
        RequestCounts,
    },
    errors::PetStoreError,
    pages::PageSize,
    violations::{Violation, Violations},
};
use petstore_proto::admin::v1 as pb;

use crate::{
    domain::{Operator, PageTokens, Role},
    error::{AdminError, Result},
};

/// Returns the error for a parameter that breaks a rule.
pub(super) fn refuse(field: &'static str, rule: &'static str) -> AdminError {
    refused(Violation::new(field, rule))
}

pub(super) fn refused(violation: Violation) -> AdminError {
    PetStoreError::InvalidParameter(violation.into()).into()
}

/// Returns the time after a duration in the given field.
///
/// # Errors
///
/// If the time is after the year 9999.
pub(super) fn after(field: &'static str, now: UnixMillis, ttl: Duration) -> Result<UnixMillis> {
    let moment = Some(now.plus(ttl)).filter(|moment| *moment <= UnixMillis::LAST);
    moment.ok_or_else(|| refuse(field, "must end before the year 10000"))
}

/// Parses the time in the given field, to the millisecond.
pub(super) fn moment(field: &'static str, timestamp: Timestamp) -> Result<UnixMillis> {
    UnixMillis::from_timestamp(timestamp).ok_or_else(|| refuse(field, "must be a time between 1970 and 9999"))
}

/// Parses the duration in the given field, to the millisecond. It must not be negative.
pub(super) fn duration(field: &'static str, duration: prost_types::Duration) -> Result<Duration> {
    let millis = Duration::try_from(duration).ok().and_then(|it| u64::try_from(it.as_millis()).ok());
    let parsed = millis.filter(|millis| *millis <= UnixMillis::LAST.0).map(Duration::from_millis);
    parsed.ok_or_else(|| refuse(field, "must be a duration, and not a negative one"))
}

pub(super) fn account_name(raw: &str) -> Result<AccountName> {
    AccountName::parse(raw).map_err(refused)
}

/// Parses the name in a filter. An empty one selects every account.
pub(super) fn account_filter(raw: &str) -> Result<Option<AccountName>> {
    Some(raw).filter(|raw| !raw.is_empty()).map(account_name).transpose()
}

pub(super) fn key_id(raw: &str) -> Result<KeyId> {
    raw.parse().map_err(|_| refuse("keyId", "must be the UUID of a key"))
}

/// Returns the size of a page, and the position after which it begins.
pub(super) fn page<P>(
    tokens: &PageTokens,
    page_size: i32,
    page_token: &str,
    parse_position: impl FnOnce(&str) -> Option<P>,
) -> Result<(PageSize, Option<P>)> {
    let size = PageSize::parse(page_size).map_err(refused)?;
    let foreign = || PetStoreError::InvalidCursor(PageTokens::FOREIGN);
    let position = tokens.position(page_token).map_err(PetStoreError::InvalidCursor)?;
    Ok((size, position.map(|position| parse_position(position).ok_or_else(foreign)).transpose()?))
}

/// Cuts the rows to one page, and returns the token of the next one. `rows` has one row more than the page if
/// there is one.
pub(super) fn cut<T>(
    mut rows: Vec<T>,
    size: PageSize,
    tokens: &PageTokens,
    position: impl FnOnce(&T) -> String,
) -> (Vec<T>, String) {
    let has_more = rows.len() > size.get();
    rows.truncate(size.get());
    let next = rows.last().filter(|_| has_more).map(|last| tokens.token(&position(last)));
    (rows, next.unwrap_or_default())
}

/// Returns the name of the plan; `None` if none is given.
pub(super) fn plan_name(number: i32) -> Result<Option<&'static str>, Violation> {
    if number == 0 {
        return Ok(None);
    }
    let name = usize::try_from(number).ok().and_then(|number| Plan::NAMES.get(number - 1));
    let unknown = Violation::new("plan", "must be one of free, pro, business, enterprise");
    name.map(|name| Some(*name)).ok_or(unknown)
}

/// Parses a plan with its limits. Limits are refused for plans other than enterprise, whose limits are fixed.
pub(super) fn plan(number: i32, limits: Option<pb::Limits>) -> Result<Plan, Violations> {
    let name = plan_name(number)?.ok_or(Violation::new("plan", "is required"))?;
    let limits = limits.map(quota);
    Plan::parse(name, limits.map(|it| it.per_minute), limits.map(|it| it.per_day))
}

/// Returns limits, which may be invalid: a negative number is 0, which is refused as well.
pub(super) fn quota(limits: pb::Limits) -> Quota {
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    Quota { per_minute: number(limits.per_minute), per_day: number(limits.per_day) }
}

pub(super) fn account(account: &Account) -> pb::Account {
    let limits = account.plan.quota();
    let int64 = |number| i64::try_from(number).unwrap_or(i64::MAX);
    let suspension = account.suspension.as_ref();
    let reason = suspension.and_then(|suspension| suspension.reason.as_ref());
    pb::Account {
        id: account.id.0,
        name: account.name.to_string(),
        plan: account.plan.number(),
        limits: Some(pb::Limits { per_minute: int64(limits.per_minute), per_day: int64(limits.per_day) }),
        create_time: Some(account.created_at.to_timestamp()),
        suspend_time: suspension.map(|suspension| suspension.since.to_timestamp()),
        suspend_reason: reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default(),
    }
}

/// Parses the environment; `None` if none is given.
pub(super) fn environment(number: i32) -> Result<Option<Environment>> {
    match pb::Environment::try_from(number) {
        Ok(pb::Environment::Unspecified) => Ok(None),
        Ok(pb::Environment::Production) => Ok(Some(Environment::Production)),
        Ok(pb::Environment::Staging) => Ok(Some(Environment::Staging)),
        Err(_) => Err(refuse("environment", "must be one of production, staging")),
    }
}

/// Parses the requests that a new key may make.
pub(super) fn scope(access: i32, addresses: &[String]) -> Result<KeyScope> {
    let is_read_only = match pb::KeyAccess::try_from(access) {
        Ok(pb::KeyAccess::Unspecified | pb::KeyAccess::Full) => false,
        Ok(pb::KeyAccess::Read) => true,
        Err(_) => return Err(refuse("access", "must be one of full, read")),
    };
    let addresses = AllowedAddresses::parse(addresses.iter().map(String::as_str));
    let addresses = addresses.map_err(|rule| refuse("allowedAddresses", rule))?;
    Ok(KeyScope { is_read_only, addresses })
}

pub(super) const fn environment_of(environment: Environment) -> pb::Environment {
    match environment {
        Environment::Production => pb::Environment::Production,
        Environment::Staging => pb::Environment::Staging,
    }
}

pub(super) fn key(key: &ApiKeyRecord, ban: Option<&Ban>, now: UnixMillis) -> pb::Key {
    let access = if key.scope.is_read_only { pb::KeyAccess::Read } else { pb::KeyAccess::Full };
    let state = key.state(now);
    // A ban has no effect on a key that is refused anyway.
    let ban = ban.filter(|_| state == KeyState::Active);
    pb::Key {
        id: key.id.to_string(),
        account: key.account.to_string(),
        account_id: key.account_id.0,
        label: key.label.as_ref().map(Remark::as_str).unwrap_or_default().to_owned(),
        environment: environment_of(key.environment).into(),
        prefix: key.environment.key_prefix().to_owned(),
        last_four: key.last_four.clone(),
        state: state as i32,
        create_time: Some(key.created_at.to_timestamp()),
        expire_time: key.expires_at.map(UnixMillis::to_timestamp),
        revoke_time: key.revoked_at.map(UnixMillis::to_timestamp),
        last_use_time: key.last_used_at.map(UnixMillis::to_timestamp),
        ban: ban.map(|ban| self::ban(key.id, &key.account, ban)),
        access: access.into(),
        allowed_addresses: key.scope.addresses.written(),
        replaces: key.replaces.map(|id| id.to_string()).unwrap_or_default(),
    }
}

pub(super) fn ban(key_id: KeyId, account: &AccountName, ban: &Ban) -> pb::Ban {
    let (origin, reason) = ban.origin.message();
    pb::Ban {
        key_id: key_id.to_string(),
        account: account.to_string(),
        create_time: Some(ban.from.to_timestamp()),
        end_time: Some(ban.until.to_timestamp()),
        origin,
        reason,
    }
}

/// Returns the counts of requests as a message.
pub(super) const fn counts(counts: RequestCounts) -> pb::UsageCounts {
    let RequestCounts { succeeded, client_errors, refused, server_errors, get_pet } = counts;
    pb::UsageCounts { succeeded, client_errors, refused, server_errors, get_pet }
}

/// Returns the counts of a period.
pub(super) fn period(
    start: UnixMillis,
    account: &str,
    key_id: Option<KeyId>,
    counts: RequestCounts,
) -> pb::UsagePeriod {
    pb::UsagePeriod {
        start_time: Some(start.to_timestamp()),
        account: account.to_owned(),
        key_id: key_id.map(|id| id.to_string()).unwrap_or_default(),
        counts: Some(self::counts(counts)),
    }
}

pub(super) fn role(number: i32) -> Result<Role> {
    let role = Role::ALL.into_iter().find(|role| *role as i32 == number);
    role.ok_or_else(|| refuse("role", "must be one of viewer, admin"))
}

pub(super) fn operator(operator: &Operator) -> pb::Operator {
    pb::Operator {
        name: operator.name.to_string(),
        role: operator.role as i32,
        last_four: operator.last_four.clone().unwrap_or_default(),
        create_time: operator.last_four.is_some().then(|| operator.created_at.to_timestamp()),
        revoke_time: operator.revoked_at.map(UnixMillis::to_timestamp),
        last_use_time: operator.last_used_at.map(UnixMillis::to_timestamp),
        expire_time: operator.expires_at.map(UnixMillis::to_timestamp),
    }
}
