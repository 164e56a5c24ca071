//! Credentials of operators and of gateways.

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{KeyDigest, bearer::is_token68, generate, is_whole};

/// Complete token of an operator: `pet_op_`, 30 random base62 characters and 6 of checksum. Also the token of
/// a session that an operator has opened, which begins with `pet_ses_`. It has no `Display`, and its `Debug`
/// shows only the prefix.
///
/// ```
/// use petstore_caller::api_key::OperatorToken;
///
/// let token = OperatorToken::generate();
/// let shown = OperatorToken::parse(token.expose()).expect("a whole token");
/// assert_eq!(shown.digest(), token.digest());
/// assert!(OperatorToken::generate_session().is_session() && !token.is_session());
/// // A wrong checksum:
/// assert!(OperatorToken::parse("pet_op_000000000000000000000000000000000000").is_none());
/// ```
#[derive(Clone)]
pub struct OperatorToken(String);

impl OperatorToken {
    /// Prefix of the token of an operator.
    pub const PREFIX: &str = "pet_op_";
    /// Prefix of the token of a session.
    pub const SESSION_PREFIX: &str = "pet_ses_";

    /// Generates a token of an operator.
    pub fn generate() -> Self {
        Self(generate(Self::PREFIX))
    }

    /// Generates a token of a session.
    pub fn generate_session() -> Self {
        Self(generate(Self::SESSION_PREFIX))
    }

    /// Parses a token. Returns `None` if its form or checksum is wrong. The token need not exist.
    pub fn parse(written: &str) -> Option<Self> {
        let is_token = [Self::PREFIX, Self::SESSION_PREFIX].iter().any(|prefix| is_whole(prefix, written));
        is_token.then(|| Self(written.to_owned()))
    }

    /// Returns `true` for the token of a session.
    pub fn is_session(&self) -> bool {
        self.0.starts_with(Self::SESSION_PREFIX)
    }

    /// Returns the digest, which is stored and looked up in place of the token.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.expose()).into())
    }

    /// Returns the last four characters, which belong to the checksum. They distinguish tokens in a list.
    pub fn last_four(&self) -> &str {
        &self.0[self.0.len() - 4..]
    }

    /// Returns the token itself, to be shown to its operator once and never logged.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.is_session() { Self::SESSION_PREFIX } else { Self::PREFIX };
        write!(f, "OperatorToken({prefix}…)")
    }
}

/// Secret that an operator gives to a core and to its gateways. It has no `Display`, and its `Debug` shows
/// nothing. Clones share it.
#[derive(Clone)]
pub struct ServiceToken(Arc<str>);

impl ServiceToken {
    /// Parses a token, which has the characters of a bearer credential (`token68`, RFC 9110 §11.2).
    ///
    /// ```
    /// use petstore_caller::api_key::ServiceToken;
    ///
    /// let token = ServiceToken::parse("2b7e151628aed2a6abf7158809cf4f3c")?;
    /// assert!(token.is(b"2b7e151628aed2a6abf7158809cf4f3c"));
    /// assert!(!token.is(b"2b7e151628aed2a6"));
    /// assert!(ServiceToken::parse("too short").is_err());
    /// # Ok::<(), &str>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is too short, too long, or has other characters.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        // 32 hexadecimal digits are 128 bits, which cannot be guessed (OWASP ASVS 11.5.1).
        let is_token = (32..=512).contains(&written.len()) && written.bytes().all(is_token68);
        is_token
            .then(|| Self(written.into()))
            .ok_or("a service token has 32 to 512 characters, each a letter, a digit or one of - . _ ~ + / =")
    }

    /// Returns `true` if `shown` is the token. The time that this takes depends on the lengths alone.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }

    /// Returns the token itself, to be sent to the core and never logged.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ServiceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_key::{ApiKey, Environment};

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

    #[test]
    fn a_service_token_has_32_to_512_characters_of_a_bearer_credential() {
        for written in ["a".repeat(32), "Zz09-._~+/=".repeat(3), "b".repeat(512)] {
            assert!(ServiceToken::parse(&written).is_ok(), "{written}");
        }
        for written in ["a".repeat(31), "b".repeat(513), " ".repeat(40), "ä".repeat(32), "a\n".repeat(20)] {
            assert!(ServiceToken::parse(&written).is_err(), "{written}");
        }
    }

    #[test]
    fn only_the_whole_token_matches() {
        let written = "0123456789abcdef0123456789abcdef";
        let token = ServiceToken::parse(written).unwrap();
        assert!(token.is(written.as_bytes()) && token.expose() == written);
        for shown in ["", "0", &written[1..], &format!("{written}0"), &written.to_uppercase()] {
            assert!(!token.is(shown.as_bytes()), "{shown}");
        }
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", ServiceToken::parse(&"SECRET00".repeat(4)).unwrap()), "ServiceToken(…)");
    }
}
