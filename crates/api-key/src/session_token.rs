//! What a browser shows instead of its operator's token.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{KeyDigest, form};

const TOKEN_LEN: usize = SessionToken::PREFIX.len() + form::SECRET_LEN;

/// The token of a session that an operator has opened: `pet_ses_`, 30 random base62 characters and 6 of
/// checksum. It has no `Display`, and a `Debug` that shows only the prefix.
///
/// ```
/// use petstore_api_key::{OperatorToken, SessionToken};
///
/// let token = SessionToken::generate();
/// let shown = SessionToken::parse(token.expose()).expect("a whole token");
/// assert_eq!(shown.digest(), token.digest());
/// assert!(SessionToken::parse(OperatorToken::generate().expose()).is_none());
/// ```
#[derive(Clone)]
pub struct SessionToken([u8; TOKEN_LEN]);

impl SessionToken {
    /// What every token begins with.
    pub const PREFIX: &str = "pet_ses_";

    /// A new token.
    #[must_use]
    pub fn generate() -> Self {
        Self(form::generate(Self::PREFIX))
    }

    /// The token that is written so, if its form and checksum are right: whether there is such a session is
    /// another question.
    #[must_use]
    pub fn parse(written: &str) -> Option<Self> {
        form::parse(Self::PREFIX, written).map(Self)
    }

    /// What is stored and looked up in place of the token.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.0).into())
    }

    /// The token itself, to be given to the browser once and never logged.
    #[must_use]
    pub fn expose(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // always ASCII
    }
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionToken({}…)", Self::PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_44_characters_that_are_not_shown_by_accident() {
        let token = SessionToken::generate();
        assert_eq!(token.expose().len(), 44);
        assert_eq!(format!("{token:?}"), "SessionToken(pet_ses_…)");
    }
}
