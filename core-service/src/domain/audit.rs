//! What operators changed.

use petstore_clock::UnixMillis;
use serde_json::{Map, Value, json};

use super::{
    Account, AccountId, AccountName, ApiKeyRecord, Ban, BanOrigin, KeyId, KeyLabel, Operator, OperatorName,
    PageSize, StatedReason,
};

/// A change that an operator made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Assigned by the store, upward.
    pub id: i64,
    /// When.
    pub created_at: UnixMillis,
    /// Who.
    pub operator: OperatorName,
    /// From where, as far as that was told; else empty.
    pub client_address: String,
    /// What: the method that made the change.
    pub action: String,
    /// The name of the account that it was done to, as it was then.
    pub account: Option<AccountName>,
    /// The key that it was done to.
    pub key_id: Option<String>,
    /// The operator that it was done to.
    pub target_operator: Option<OperatorName>,
    /// What it was done to, as it was before: a JSON object; `None` if it did not exist.
    pub before: Option<String>,
    /// The same as it was afterwards.
    pub after: Option<String>,
}

/// What an audit event says of a change, besides who made it and when.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) action: &'static str,
    pub(crate) subject: Subject,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// What a change was done to.
#[derive(Debug)]
pub(crate) enum Subject {
    Account(AccountId, AccountName),
    Key(AccountId, AccountName, KeyId),
    Operator(OperatorName),
}

/// Which events a page of them shows: newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListAuditEvents {
    pub(crate) size: PageSize,
    /// Only events that are older than this one.
    pub(crate) before: Option<i64>,
    pub(crate) operator: Option<String>,
    /// Only what was done to the account that has this name, or had it then.
    pub(crate) account: Option<String>,
    pub(crate) key_id: Option<String>,
    /// Only events from this moment on.
    pub(crate) since: Option<UnixMillis>,
    /// Only events before this moment.
    pub(crate) until: Option<UnixMillis>,
}

/// A JSON object without the members that are null.
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

/// What the audit says of an account.
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

/// What the audit says of a key: nothing of the key itself, not even its last characters.
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

/// What the audit says of a ban.
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

/// What the audit says of an operator.
pub(crate) fn operator_json(operator: &Operator) -> Value {
    object(json!({
        "name": operator.name.as_str(),
        "role": operator.role.name(),
        "createTime": operator.created_at.to_string(),
        "revokeTime": moment(operator.revoked_at),
    }))
}
