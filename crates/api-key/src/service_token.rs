//! Secret with which a gateway authenticates itself to a core.

use std::{fmt, sync::Arc};

use subtle::ConstantTimeEq;

use crate::bearer::is_token68;

/// Secret that an operator gives to a core and to its gateways. It has no `Display`, and its `Debug` shows
/// nothing. Clones share it.
#[derive(Clone)]
pub struct ServiceToken(Arc<str>);

/// Error of a text that is not a service token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a service token has 32 to 512 characters, each a letter, a digit or one of - . _ ~ + / =")]
pub struct InvalidServiceToken;

impl ServiceToken {
    /// Minimum length in characters. 32 hexadecimal digits are 128 bits, which cannot be guessed (OWASP ASVS
    /// 11.5.1).
    const MIN_LEN: usize = 32;
    const MAX_LEN: usize = 512;

    /// Parses a token, which has the characters of a bearer credential (`token68`, RFC 9110 §11.2).
    ///
    /// ```
    /// use petstore_api_key::ServiceToken;
    ///
    /// let token = ServiceToken::parse("2b7e151628aed2a6abf7158809cf4f3c")?;
    /// assert!(token.is(b"2b7e151628aed2a6abf7158809cf4f3c"));
    /// assert!(!token.is(b"2b7e151628aed2a6"));
    /// assert!(ServiceToken::parse("too short").is_err());
    /// # Ok::<(), petstore_api_key::InvalidServiceToken>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is too short, too long, or has other characters.
    pub fn parse(written: &str) -> Result<Self, InvalidServiceToken> {
        let is_token =
            (Self::MIN_LEN..=Self::MAX_LEN).contains(&written.len()) && written.bytes().all(is_token68);
        is_token.then(|| Self(written.into())).ok_or(InvalidServiceToken)
    }

    /// Returns `true` if `shown` is the token. The time that this takes depends on the lengths alone.
    #[must_use]
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }

    /// Returns the token itself, to be sent to the core and never logged.
    #[must_use]
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

    #[test]
    fn a_token_has_32_to_512_characters_of_a_bearer_credential() {
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
        assert!(token.is(written.as_bytes()));
        for shown in ["", "0", &written[1..], &format!("{written}0"), &written.to_uppercase()] {
            assert!(!token.is(shown.as_bytes()), "{shown}");
        }
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", ServiceToken::parse(&"SECRET00".repeat(4)).unwrap()), "ServiceToken(…)");
    }
}
