//! The bearer credential of a request.

use http::{HeaderMap, header::AUTHORIZATION};
use petstore_api_key::{ApiKey, Environment};

/// The longest credential that is looked at, in bytes.
const MAX_TOKEN: usize = 512;

/// Why a request carries no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BearerError {
    /// There is no bearer credential.
    Missing,
    /// There is one, but it is not a key of this service.
    Invalid,
}

/// The key in the `Authorization` field (RFC 6750 §2.1, the form of RFC 9110 §11.4), if its form and checksum
/// are right and it is one of `environment`: whether it exists is another question.
///
/// # Errors
/// [`BearerError::Missing`]: no field, an empty one, or another scheme. [`BearerError::Invalid`]: everything
/// else.
pub fn bearer(headers: &HeaderMap, environment: Environment) -> Result<ApiKey, BearerError> {
    let mut fields = headers.get_all(AUTHORIZATION).into_iter();
    let field = fields.next().ok_or(BearerError::Missing)?;
    if fields.next().is_some() {
        return Err(BearerError::Invalid);
    }
    let credentials = field.as_bytes().trim_ascii();
    let scheme_end = credentials.iter().position(|byte| *byte == b' ').unwrap_or(credentials.len());
    let (scheme, token) = credentials.split_at(scheme_end);
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(BearerError::Missing);
    }
    let spaces = token.iter().take_while(|byte| **byte == b' ').count();
    token68(token.split_at(spaces).1)
        .and_then(ApiKey::parse)
        .filter(|key| key.environment() == environment)
        .ok_or(BearerError::Invalid)
}

/// The token as text if it is a token68 (RFC 9110 §11.2) of bearable length.
fn token68(token: &[u8]) -> Option<&str> {
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let (body, _) = token.split_at_checked(token.len().checked_sub(padding)?)?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    if token.len() > MAX_TOKEN || body.is_empty() || !body.iter().all(allowed) {
        return None;
    }
    std::str::from_utf8(token).ok()
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
        bearer(&headers, Environment::Production).map(|key| key.expose().to_owned())
    }

    #[test]
    fn a_key_is_read_whatever_the_case_of_the_scheme_and_the_spaces_around() {
        let key = ApiKey::generate(Environment::Production).expose().to_owned();
        for before in ["Bearer ", "bearer ", "BEARER   ", "  Bearer ", "\tbEaReR "] {
            for after in ["", " ", " \t "] {
                assert_eq!(judged(&[&format!("{before}{key}{after}")]), Ok(key.clone()));
            }
        }
    }

    #[test]
    fn no_field_an_empty_one_and_another_scheme_are_missing() {
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
    fn a_token_has_at_most_512_characters_of_token68() {
        let longest = "a".repeat(MAX_TOKEN);
        assert_eq!(token68(longest.as_bytes()), Some(longest.as_str()));
        assert_eq!(token68(b"AZaz09-._~+/=="), Some("AZaz09-._~+/=="));
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic(field in vec(prop_oneof![32..=126u8, 128..=255u8, Just(9)], 0..80)) {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(&field).unwrap());
            prop_assert!(bearer(&headers, Environment::Production).is_err());
        }
    }
}
