//! The operators of the service.

use std::{borrow::Cow, fmt, net::IpAddr, sync::Arc, time::Duration};

use petstore_caller::api_key::OperatorToken;
use petstore_clock::UnixMillis;
use petstore_core::{accounts::AccountName, violations::Violation};

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
        if raw == Self::LOCAL.as_str() {
            return Err(Violation::new(
                "name",
                "must not be local, the name of commands on the store itself",
            ));
        }
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
    Viewer,
    /// May read and change everything.
    Admin,
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
}
