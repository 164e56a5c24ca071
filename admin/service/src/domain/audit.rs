//! Events of the audit log: the changes made by operators.

use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        Account, AccountId, AccountName, ApiKeyRecord, Ban, BanOrigin, KeyId, Remark,
        store::brownouts::Brownout,
    },
    pages::PageSize,
};
use serde_json::{Map, Value, json};

use super::operator::{Operator, OperatorName};

/// The parts of an audit event other than its author and time.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) action: &'static str,
    pub(crate) subject: Subject,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// Something that operators change.
pub(crate) trait Audited {
    fn subject(&self) -> Subject;

    /// Returns the state that the audit log shows: an object without any part of a key or a token.
    fn json(&self) -> Value;
}

/// The subject of a change.
#[derive(Debug)]
pub(crate) enum Subject {
    Account(AccountId, AccountName),
    Key(AccountId, AccountName, KeyId),
    Operator(OperatorName),
    /// Something that concerns every account.
    Service,
}

/// Filters of a page of events, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListAuditEvents {
    pub(crate) size: PageSize,
    /// Only events older than this one.
    pub(crate) before: Option<i64>,
    pub(crate) operator: Option<String>,
    /// Only changes to the account that had this name then, or has it now: that with the identifier.
    pub(crate) account: Option<(String, Option<AccountId>)>,
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

impl Audited for Account {
    fn subject(&self) -> Subject {
        Subject::Account(self.id, self.name.clone())
    }

    fn json(&self) -> Value {
        let limits = self.plan.quota();
        let suspension = self.suspension.as_ref();
        object(json!({
            "id": self.id.0,
            "name": self.name.as_str(),
            "plan": self.plan.name(),
            "perMinute": limits.per_minute,
            "perDay": limits.per_day,
            "suspendTime": moment(suspension.map(|suspension| suspension.since)),
            "suspendReason": suspension.and_then(|it| it.reason.as_ref()).map(Remark::as_str),
        }))
    }
}

impl Audited for ApiKeyRecord {
    fn subject(&self) -> Subject {
        Subject::Key(self.account_id, self.account.clone(), self.id)
    }

    fn json(&self) -> Value {
        object(json!({
            "id": self.id.to_string(),
            "label": self.label.as_ref().map(Remark::as_str),
            "access": self.scope.is_read_only.then_some("read"),
            "allowedAddresses": Some(self.scope.addresses.written()).filter(|written| !written.is_empty()),
            "environment": self.environment.name(),
            "createTime": self.created_at.to_string(),
            "expireTime": moment(self.expires_at),
            "revokeTime": moment(self.revoked_at),
            "replaces": self.replaces.map(|id| id.to_string()),
        }))
    }
}

/// Returns a ban as the audit log shows it.
pub(crate) fn ban_json(ban: &Ban) -> Value {
    let (origin, reason) = match &ban.origin {
        BanOrigin::Limiter => ("limiter", None),
        BanOrigin::Operator(reason) => ("operator", reason.as_ref()),
    };
    object(json!({
        "createTime": ban.from.to_string(),
        "endTime": ban.until.to_string(),
        "origin": origin,
        "reason": reason.map(Remark::as_str),
    }))
}

impl Audited for Brownout {
    fn subject(&self) -> Subject {
        self.account.clone().map_or(Subject::Service, |(id, name)| Subject::Account(id, name))
    }

    fn json(&self) -> Value {
        json!({
            "id": self.id,
            "operationId": "getPet",
            "startTime": self.from.to_string(),
            "endTime": self.until.to_string(),
        })
    }
}

impl Audited for Operator {
    fn subject(&self) -> Subject {
        Subject::Operator(self.name.clone())
    }

    fn json(&self) -> Value {
        object(json!({
            "name": self.name.as_str(),
            "role": self.role.name(),
            "createTime": self.created_at.to_string(),
            "expireTime": moment(self.expires_at),
            "revokeTime": moment(self.revoked_at),
        }))
    }
}
