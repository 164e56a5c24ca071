//! Bearer credential of a request.

use http::{HeaderMap, header::AUTHORIZATION};

use super::{ApiKey, Environment, OperatorToken};
use crate::headers::only_field;

/// Maximum length of a credential, in bytes.
const MAX_LEN: usize = 512;

/// Reason why a request carries no usable credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BearerError {
    /// The bearer credential is missing.
    Missing,
    /// There is one, but not in the expected form.
    Invalid,
}

/// Returns the credential in `Authorization: Bearer …` (RFC 6750 §2.1, the form of RFC 9110 §11.4).
///
/// # Errors
///
/// [`BearerError::Missing`] if there is no field, an empty one, or one of another scheme.
/// [`BearerError::Invalid`] if there are two fields, or no token68 (RFC 9110 §11.2) of at most 512 characters
/// after the scheme.
pub fn bearer(headers: &HeaderMap) -> Result<&str, BearerError> {
    let field = only_field(headers, AUTHORIZATION).map_err(|_| BearerError::Invalid)?;
    let field = field.ok_or(BearerError::Missing)?;
    let credentials = field.as_bytes().trim_ascii();
    let scheme_end = credentials.iter().position(|byte| *byte == b' ').unwrap_or(credentials.len());
    let (scheme, token) = credentials.split_at(scheme_end);
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(BearerError::Missing);
    }
    let spaces = token.iter().take_while(|byte| **byte == b' ').count();
    let token = token.split_at(spaces).1;
    let is_token = (1..=MAX_LEN).contains(&token.len()) && token.iter().copied().all(is_token68);
    std::str::from_utf8(token).ok().filter(|_| is_token).ok_or(BearerError::Invalid)
}

/// Returns `true` if a token68 may have this byte. Service tokens may have `=` anywhere, not only at the end.
pub(crate) fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

impl ApiKey {
    /// Returns the key in `Authorization`, if its form and checksum are right and it is one of `environment`.
    /// The key need not exist.
    ///
    /// # Errors
    ///
    /// If [`bearer`] fails, and [`BearerError::Invalid`] if the credential is not such a key.
    pub fn from_headers(headers: &HeaderMap, environment: Environment) -> Result<Self, BearerError> {
        let key = Self::parse(bearer(headers)?).filter(|key| key.environment() == environment);
        key.ok_or(BearerError::Invalid)
    }
}

impl OperatorToken {
    /// Returns the token in `Authorization`, if its form and checksum are right.
    ///
    /// # Errors
    ///
    /// If [`bearer`] fails, and [`BearerError::Invalid`] if the credential is not such a token.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, BearerError> {
        Self::parse(bearer(headers)?).ok_or(BearerError::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn judged(fields: &[&str]) -> Result<String, BearerError> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(field.as_bytes()).unwrap());
        }
        ApiKey::from_headers(&headers, Environment::Production).map(|key| key.expose().to_owned())
    }

    #[test]
    fn the_scheme_is_case_insensitive_and_spaces_are_ignored() {
        let key = ApiKey::generate(Environment::Production).expose().to_owned();
        for before in ["Bearer ", "bearer ", "BEARER   ", "  Bearer ", "\tbEaReR "] {
            for after in ["", " ", " \t "] {
                assert_eq!(judged(&[&format!("{before}{key}{after}")]), Ok(key.clone()));
            }
        }
    }

    #[test]
    fn an_absent_or_empty_field_or_another_scheme_is_missing() {
        let key = ApiKey::generate(Environment::Production).expose().to_owned();
        assert_eq!(judged(&[]), Err(BearerError::Missing));
        for field in ["", "   ", "Basic dXNlcjpwYXNz", "Bearer:x", &key, &format!("Token {key}")] {
            assert_eq!(judged(&[field]), Err(BearerError::Missing), "{field}");
        }
    }

    #[test]
    fn two_fields_are_invalid_even_if_they_are_equal() {
        let field = format!("Bearer {}", ApiKey::generate(Environment::Production).expose());
        assert_eq!(judged(&[&field, &field]), Err(BearerError::Invalid));
        assert_eq!(judged(&["", &field]), Err(BearerError::Invalid));
    }

    #[test]
    fn a_bad_token_is_invalid() {
        let key = ApiKey::generate(Environment::Production).expose().to_owned();
        let long = "a".repeat(513);
        for token in [
            "",
            "a b",
            "a,b",
            "=",
            "a=b",
            "ä",
            &long,
            &format!("{key}="),
            &format!("\t{key}"),
            &format!("{key} {key}"),
        ] {
            assert_eq!(judged(&[&format!("Bearer {token}")]), Err(BearerError::Invalid), "{token}");
        }
        assert_eq!(judged(&["Bearer"]), Err(BearerError::Invalid));
    }

    #[test]
    fn a_wrong_checksum_is_invalid() {
        let mut key = ApiKey::generate(Environment::Production).expose().to_owned();
        let last = if key.ends_with('0') { "1" } else { "0" };
        key.replace_range(44.., last);
        assert_eq!(judged(&[&format!("Bearer {key}")]), Err(BearerError::Invalid));
    }

    #[test]
    fn a_key_of_the_other_environment_is_invalid() {
        let key = ApiKey::generate(Environment::Staging);
        assert_eq!(judged(&[&format!("Bearer {}", key.expose())]), Err(BearerError::Invalid));
    }

    #[test]
    fn a_token_has_at_most_512_characters() {
        let read = |token: &str| {
            let field = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            bearer(&HeaderMap::from_iter([(AUTHORIZATION, field)])).map(str::to_owned)
        };
        assert_eq!(read(&"a".repeat(MAX_LEN)), Ok("a".repeat(MAX_LEN)));
        assert_eq!(read(&"a".repeat(MAX_LEN + 1)), Err(BearerError::Invalid));
        assert_eq!(read("AZaz09-._~+/=="), Ok("AZaz09-._~+/==".to_owned()));
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic(field in vec(prop_oneof![32..=126u8, 128..=255u8, Just(9)], 0..80)) {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(&field).unwrap());
            prop_assert!(ApiKey::from_headers(&headers, Environment::Production).is_err());
        }
    }
}
