//! Events of the audit: the changes made by operators.

use petstore_clock::UnixMillis;
use serde_json::{Map, Value, json};

use super::{
    Account, AccountId, AccountName, ApiKeyRecord, Ban, BanOrigin, KeyId, KeyLabel, Operator, OperatorName,
    PageSize, StatedReason,
};

/// The parts of an audit event beside its author and its time.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) action: &'static str,
    pub(crate) subject: Subject,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// The subject of a change.
#[derive(Debug)]
pub(crate) enum Subject {
    Account(AccountId, AccountName),
    Key(AccountId, AccountName, KeyId),
    Operator(OperatorName),
}

/// Filters of a page of events, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListAuditEvents {
    pub(crate) size: PageSize,
    /// Only events older than this one.
    pub(crate) before: Option<i64>,
    pub(crate) operator: Option<String>,
    /// Only changes to the account that has this name, or had it then.
    pub(crate) account: Option<String>,
    pub(crate) key_id: Option<String>,
    /// Only events at or after this time.
    pub(crate) since: Option<UnixMillis>,
    /// Only events before this time.
    pub(crate) until: Option<UnixMillis>,
}

/// Returns the object without the members that are null.
fn object(members: Value) -> Value {
    match members {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn moment(moment: Option<UnixMillis>) -> Option<String> {
    moment.map(|moment| moment.to_string())
}

/// Returns an account as the audit shows it.
pub(crate) fn account_json(account: &Account) -> Value {
    let limits = account.plan.quota();
    let suspension = account.suspension.as_ref();
    object(json!({
        "id": account.id.0,
        "name": account.name.as_str(),
        "plan": account.plan.name(),
        "perMinute": limits.per_minute,
        "perDay": limits.per_day,
        "suspendTime": moment(suspension.map(|suspension| suspension.since)),
        "suspendReason": suspension.and_then(|it| it.reason.as_ref()).map(StatedReason::as_str),
    }))
}

/// Returns a key as the audit shows it: without any part of the key itself, not even its last characters.
pub(crate) fn key_json(key: &ApiKeyRecord) -> Value {
    object(json!({
        "id": key.id.to_string(),
        "label": key.label.as_ref().map(KeyLabel::as_str),
        "environment": key.environment.name(),
        "createTime": key.created_at.to_string(),
        "expireTime": moment(key.expires_at),
        "revokeTime": moment(key.revoked_at),
    }))
}

/// Returns a ban as the audit shows it.
pub(crate) fn ban_json(ban: &Ban) -> Value {
    let (origin, reason) = match &ban.origin {
        BanOrigin::Limiter => ("limiter", None),
        BanOrigin::Operator(reason) => ("operator", reason.as_ref()),
    };
    object(json!({
        "createTime": ban.from.to_string(),
        "endTime": ban.until.to_string(),
        "origin": origin,
        "reason": reason.map(StatedReason::as_str),
    }))
}

/// Returns an operator as the audit shows it.
pub(crate) fn operator_json(operator: &Operator) -> Value {
    object(json!({
        "name": operator.name.as_str(),
        "role": operator.role.name(),
        "createTime": operator.created_at.to_string(),
        "revokeTime": moment(operator.revoked_at),
    }))
}
