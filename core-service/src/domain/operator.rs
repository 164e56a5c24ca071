//! Who administers the service.

use std::{borrow::Cow, fmt, time::Duration};

use petstore_api_key::OperatorToken;
use petstore_clock::UnixMillis;

use super::{AccountName, Violation};

/// What an operator is called; unique, also among those that were revoked. The rules are those of
/// [`AccountName`], and `local` is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorName(Cow<'static, str>);

impl OperatorName {
    /// Whoever has the store itself, and so needs no token.
    pub const LOCAL: Self = Self(Cow::Borrowed("local"));

    /// # Errors
    ///
    /// When it is not such a name.
    pub fn parse(raw: &str) -> Result<Self, Violation> {
        if raw == Self::LOCAL.as_str() {
            return Err(Violation::new("name", "must not be local, which is who works on the store itself"));
        }
        AccountName::parse_field("name", raw).map(|name| Self::stored(name.to_string()))
    }

    /// The name in an audit event: [`Self::LOCAL`] too.
    pub(crate) fn stored(name: String) -> Self {
        Self(Cow::Owned(name))
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read everything.
    Viewer,
    /// Read and change everything.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Viewer, Self::Admin];

    /// Its name in the store and on the command line.
    #[must_use]
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

/// A person or a program that administers the service: everything but the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// What it is called.
    pub name: OperatorName,
    /// What it may do.
    pub role: Role,
    /// The token's last four characters; `None` for [`OperatorName::LOCAL`], which has none.
    pub last_four: Option<String>,
    /// When it was created.
    pub created_at: UnixMillis,
    /// When its token was revoked.
    pub revoked_at: Option<UnixMillis>,
    /// When its token was last used, to the minute.
    pub last_used_at: Option<UnixMillis>,
}

impl Operator {
    /// A session expires after this time, used or not.
    pub(crate) const SESSION_TTL: Duration = Duration::from_hours(8);
    /// The sessions that an operator may have at once. One more ends the oldest.
    pub(crate) const MAX_SESSIONS: u64 = 50;

    /// Whoever has the store itself.
    #[must_use]
    pub const fn local() -> Self {
        Self {
            name: OperatorName::LOCAL,
            role: Role::Admin,
            last_four: None,
            created_at: UnixMillis(0),
            revoked_at: None,
            last_used_at: None,
        }
    }
}

/// A new operator: the only time that anybody sees the token whole.
#[derive(Debug)]
pub struct IssuedOperator {
    /// What is kept.
    pub operator: Operator,
    /// The token, to be shown to the operator once.
    pub token: OperatorToken,
}

/// Who makes a change, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The operator.
    pub operator: OperatorName,
    /// The address of the client, as far as it was told; else empty.
    pub client_address: String,
}

impl Actor {
    /// A command on the store itself.
    pub const LOCAL: Self = Self { operator: OperatorName::LOCAL, client_address: String::new() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_take_the_name_of_the_local_operator() {
        assert!(OperatorName::parse("ann").is_ok() && OperatorName::parse("locale").is_ok());
        for name in ["local", "", "a b", "-a"] {
            assert_eq!(OperatorName::parse(name).unwrap_err().field, "name", "{name}");
        }
    }
}
