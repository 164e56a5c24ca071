//! What an operator shows to administer the service.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{KeyDigest, form};

const TOKEN_LEN: usize = OperatorToken::PREFIX.len() + form::SECRET_LEN;

/// A whole operator token: `pet_op_`, 30 random base62 characters and 6 of checksum. Like a key it has no
/// voice: no `Display`, and a `Debug` that shows only the prefix.
///
/// ```
/// use petstore_api_key::OperatorToken;
///
/// let token = OperatorToken::generate();
/// let shown = OperatorToken::parse(token.expose()).expect("a whole token");
/// assert_eq!(shown.digest(), token.digest());
/// // A wrong checksum:
/// assert!(OperatorToken::parse("pet_op_000000000000000000000000000000000000").is_none());
/// ```
#[derive(Clone)]
pub struct OperatorToken([u8; TOKEN_LEN]);

impl OperatorToken {
    /// What every token begins with.
    pub const PREFIX: &str = "pet_op_";

    /// A new token.
    #[must_use]
    pub fn generate() -> Self {
        Self(form::generate(Self::PREFIX))
    }

    /// The token that is written so, if its form and checksum are right: whether it exists is another
    /// question.
    #[must_use]
    pub fn parse(written: &str) -> Option<Self> {
        form::parse(Self::PREFIX, written).map(Self)
    }

    /// What is stored and looked up in place of the token.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.0).into())
    }

    /// The token's last four characters, which belong to the checksum: they tell tokens apart in a list.
    #[must_use]
    pub fn last_four(&self) -> &str {
        &self.expose()[TOKEN_LEN - 4..]
    }

    /// The token itself, to be shown to its operator once and never logged.
    #[must_use]
    pub fn expose(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // always ASCII
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorToken({}…)", Self::PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiKey, Environment};

    #[test]
    fn a_token_is_43_characters_that_are_read_again_and_not_shown_by_accident() {
        let token = OperatorToken::generate();
        assert_eq!(token.expose().len(), 43);
        assert_eq!(OperatorToken::parse(token.expose()).unwrap().digest(), token.digest());
        assert_eq!(format!("{token:?}"), "OperatorToken(pet_op_…)");
    }

    #[test]
    fn a_key_is_no_token_and_a_token_is_no_key() {
        assert!(OperatorToken::parse(ApiKey::generate(Environment::Production).expose()).is_none());
        assert!(ApiKey::parse(OperatorToken::generate().expose()).is_none());
    }
}
