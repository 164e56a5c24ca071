//! Credentials of operators.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{KeyDigest, form};

/// Complete token of an operator: `pet_op_`, 30 random base62 characters and 6 of checksum. Also the token of
/// a session that an operator has opened, which begins with `pet_ses_`. It has no `Display`, and its `Debug`
/// shows only the prefix.
///
/// ```
/// use petstore_api_key::OperatorToken;
///
/// let token = OperatorToken::generate();
/// let shown = OperatorToken::parse(token.expose()).expect("a whole token");
/// assert_eq!(shown.digest(), token.digest());
/// assert!(OperatorToken::generate_session().is_session() && !token.is_session());
/// // A wrong checksum:
/// assert!(OperatorToken::parse("pet_op_000000000000000000000000000000000000").is_none());
/// ```
#[derive(Clone)]
pub struct OperatorToken(Form);

#[derive(Clone)]
enum Form {
    Operator([u8; OperatorToken::PREFIX.len() + form::SECRET_LEN]),
    Session([u8; OperatorToken::SESSION_PREFIX.len() + form::SECRET_LEN]),
}

impl OperatorToken {
    /// Prefix of the token of an operator.
    pub const PREFIX: &str = "pet_op_";
    /// Prefix of the token of a session.
    pub const SESSION_PREFIX: &str = "pet_ses_";

    /// Generates a token of an operator.
    #[must_use]
    pub fn generate() -> Self {
        Self(Form::Operator(form::generate(Self::PREFIX)))
    }

    /// Generates a token of a session.
    #[must_use]
    pub fn generate_session() -> Self {
        Self(Form::Session(form::generate(Self::SESSION_PREFIX)))
    }

    /// Parses a token. Returns `None` if its form or checksum is wrong. The token need not exist.
    #[must_use]
    pub fn parse(written: &str) -> Option<Self> {
        let session = || form::parse(Self::SESSION_PREFIX, written).map(Form::Session);
        form::parse(Self::PREFIX, written).map(Form::Operator).or_else(session).map(Self)
    }

    /// Returns `true` for the token of a session.
    #[must_use]
    pub const fn is_session(&self) -> bool {
        matches!(self.0, Form::Session(_))
    }

    /// Returns the digest, which is stored and looked up in place of the token.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.expose()).into())
    }

    /// Returns the last four characters, which belong to the checksum. They distinguish tokens in a list.
    #[must_use]
    pub fn last_four(&self) -> &str {
        let written = self.expose();
        &written[written.len() - 4..]
    }

    /// Returns the token itself, to be shown to its operator once and never logged.
    #[must_use]
    pub fn expose(&self) -> &str {
        let written: &[u8] = match &self.0 {
            Form::Operator(written) => written,
            Form::Session(written) => written,
        };
        std::str::from_utf8(written).unwrap_or_default() // always ASCII
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.is_session() { Self::SESSION_PREFIX } else { Self::PREFIX };
        write!(f, "OperatorToken({prefix}…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiKey, Environment};

    #[test]
    fn a_token_is_parsed_again_and_not_shown_by_debug() {
        for (token, length, shown) in [
            (OperatorToken::generate(), 43, "OperatorToken(pet_op_…)"),
            (OperatorToken::generate_session(), 44, "OperatorToken(pet_ses_…)"),
        ] {
            assert_eq!(token.expose().len(), length);
            assert!(token.expose().ends_with(token.last_four()) && token.last_four().len() == 4);
            let read = OperatorToken::parse(token.expose()).unwrap();
            assert_eq!((read.digest(), read.is_session()), (token.digest(), token.is_session()));
            assert_eq!(format!("{token:?}"), shown);
        }
    }

    #[test]
    fn a_key_is_no_token_and_a_token_is_no_key() {
        assert!(OperatorToken::parse(ApiKey::generate(Environment::Production).expose()).is_none());
        for token in [OperatorToken::generate(), OperatorToken::generate_session()] {
            assert!(ApiKey::parse(token.expose()).is_none());
        }
    }
}
