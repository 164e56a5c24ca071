//! Operators, the events of their audit log and the page tokens of their lists, with the rules for them.

use std::{
    borrow::Cow,
    fmt::{self, Debug},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use petstore_caller::api_key::OperatorToken;
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        Account, AccountId, AccountName, ApiKeyRecord, Ban, BanOrigin, KeyId, Remark,
        store::brownouts::Brownout,
    },
    pages::PageSize,
    violations::Violation,
};
use petstore_proto::admin::v1 as pb;
use serde_json::{Value, json};

/// Name of an operator: unique, also among revoked operators. The rules are those of [`AccountName`], and
/// `local` is reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorName(Cow<'static, str>);

impl OperatorName {
    /// The operator of commands on the store itself, which need no token.
    pub const LOCAL: Self = Self(Cow::Borrowed("local"));

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// If it is not such a name.
    pub fn parse(raw: &str) -> Result<Self, Violation> {
        let rule = "must not be local, the name of commands on the store itself";
        Violation::check(raw != Self::LOCAL.as_str(), "name", rule)?;
        AccountName::parse_field("name", raw).map(|name| Self::stored(name.to_string()))
    }

    /// Returns the name of an audit event, which may be [`Self::LOCAL`], without checking it.
    pub(crate) fn stored(name: String) -> Self {
        Self(Cow::Owned(name))
    }

    /// Returns the name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rights of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May read everything.
    Viewer = pb::Role::Viewer as isize,
    /// May read and change everything.
    Admin = pb::Role::Admin as isize,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Viewer, Self::Admin];

    /// Returns the role's name in the store and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A person or a program that administers the service, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Unique name.
    pub name: OperatorName,
    /// Role.
    pub role: Role,
    /// Last four characters of the token; `None` for [`OperatorName::LOCAL`], which has none.
    pub last_four: Option<String>,
    /// Time of creation.
    pub created_at: UnixMillis,
    /// Time at which the token was revoked.
    pub revoked_at: Option<UnixMillis>,
    /// Time of the token's last use, to the minute.
    pub last_used_at: Option<UnixMillis>,
    /// Time at which the token expires.
    pub expires_at: Option<UnixMillis>,
}

impl Operator {
    /// Maximum lifetime of a session.
    pub(crate) const SESSION_TTL: Duration = Duration::from_hours(8);
    /// Time after its last use at which a session ends.
    pub(crate) const SESSION_IDLE: Duration = Duration::from_hours(1);
    /// Maximum number of sessions of an operator. Opening one more ends the oldest.
    pub(crate) const MAX_SESSIONS: u64 = 50;

    /// Returns the operator of commands on the store itself.
    pub(crate) const fn local() -> Self {
        Self {
            name: OperatorName::LOCAL,
            role: Role::Admin,
            last_four: None,
            created_at: UnixMillis(0),
            revoked_at: None,
            last_used_at: None,
            expires_at: None,
        }
    }
}

/// The author of a change.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The operator.
    pub operator: OperatorName,
    /// Token of the operator or of its session, which is checked again in the transaction of a change; `None`
    /// for a command on the store itself.
    pub token: Option<OperatorToken>,
    /// Address that the call came from; `None` for a command on the store itself.
    pub client_address: Option<IpAddr>,
    /// Name in the certificate of the process that made the call: the gateway's, if one forwarded it.
    pub certificate: Option<Arc<str>>,
}

impl Actor {
    /// Author of a command on the store itself.
    pub const LOCAL: Self =
        Self { operator: OperatorName::LOCAL, token: None, client_address: None, certificate: None };
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
fn object(mut members: Value) -> Value {
    if let Some(members) = members.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    members
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

/// Page tokens of an operators' list with its filters. A token is valid only in the same list with the same
/// filters.
#[derive(Clone, Debug)]
pub(crate) struct PageTokens {
    /// Letter that no other list has.
    list: char,
    filters: String,
}

impl PageTokens {
    /// Returns the tokens of the list with these filters.
    pub(crate) fn new(list: char, filters: &impl Debug) -> Self {
        Self { list, filters: format!("{filters:?}") }
    }

    /// Violation for a token that was changed, or belongs to another list or other filters.
    pub(crate) const FOREIGN: Violation = Violation::new(
        "pageToken",
        "must be the one returned with the previous page, unchanged, for the same filters",
    );

    /// Returns the token of the page that follows the row with this position. It is opaque to clients, like
    /// `petstore_proto::PageToken`.
    pub(crate) fn token(&self, last: &str) -> String {
        format!("{}.{last}.{:08x}", self.list, self.checksum(last))
    }

    /// Returns the position in a token, or `None` for the first page, whose token is empty.
    ///
    /// # Errors
    ///
    /// If the token is another list's or was changed: [`Self::FOREIGN`].
    pub(crate) fn position<'a>(&self, token: &'a str) -> Result<Option<&'a str>, Violation> {
        if token.is_empty() {
            return Ok(None);
        }
        let read = || {
            let (last, checksum) = token.strip_prefix(self.list)?.strip_prefix('.')?.rsplit_once('.')?;
            (checksum == format!("{:08x}", self.checksum(last))).then_some(last)
        };
        read().map(Some).ok_or(Self::FOREIGN)
    }

    fn checksum(&self, last: &str) -> u32 {
        let Self { list, filters } = self;
        crc32fast::hash(format!("petstore admin page {list}{last} {filters}").as_bytes())
    }
}

/// Returns the token of an operators' list that follows the row at the position, and the position that is
/// read from the other token.
///
/// # Errors
///
/// If the other token is not one of the list with these filters.
#[cfg(feature = "fuzzing")]
pub fn fuzz_page_token<'a>(
    list: char,
    filters: &str,
    position: &str,
    token: &'a str,
) -> (String, Result<Option<&'a str>, Violation>) {
    let tokens = PageTokens::new(list, &filters);
    (tokens.token(position), tokens.position(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_local_operator_is_reserved() {
        assert!(OperatorName::parse("ann").is_ok() && OperatorName::parse("locale").is_ok());
        for name in ["local", "", "a b", "-a", "pet_op_0000"] {
            assert_eq!(OperatorName::parse(name).unwrap_err().field, "name", "{name}");
        }
    }

    #[test]
    fn a_token_is_accepted_only_unchanged_by_its_own_list_and_filters() {
        let keys = PageTokens::new('k', &"shop");
        let token = keys.token("7.8");
        assert_eq!(keys.position(&token), Ok(Some("7.8")));
        assert_eq!(keys.position(""), Ok(None));
        for damaged in [&token[1..], "k", "k.7", &token.replace('7', "6"), &format!("{token}0")] {
            assert_eq!(keys.position(damaged), Err(PageTokens::FOREIGN), "{damaged}");
        }
        for other in [PageTokens::new('b', &"shop"), PageTokens::new('k', &""), PageTokens::new('k', &())] {
            assert_eq!(other.position(&token), Err(PageTokens::FOREIGN), "{other:?}");
        }
    }
}
