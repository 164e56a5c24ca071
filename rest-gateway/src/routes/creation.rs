//! Names of creations (`Idempotency-Key`; docs/contract.md, 7.4).

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use petstore_clock::Clock;

use crate::{error::ApiError, request_id::uuid_v7};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks an answer as a repetition of that to an earlier request.
pub(super) fn mark_replayed(response: &mut Response) {
    let field = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(field, HeaderValue::from_static("true"));
}

/// Name of a creation, by which the core recognises its repetitions.
#[derive(Debug, PartialEq)]
pub(super) enum CreationKey {
    /// Name from the client, prefixed with its account.
    FromClient(String),
    /// Unique name from this gateway, so that it can ask again when an answer is lost.
    Generated(String),
}

impl CreationKey {
    /// Returns the key of a request of the account.
    pub(super) fn from_headers(
        headers: &HeaderMap,
        account_id: i64,
        clock: &Clock,
    ) -> Result<Self, ApiError> {
        let mut fields = headers.get_all(IDEMPOTENCY_KEY).into_iter();
        match (fields.next(), fields.next()) {
            (None, _) => Ok(Self::Generated(uuid_v7(clock).to_string())),
            (Some(only), None) => {
                let key =
                    only.to_str().ok().filter(|key| is_key(key)).ok_or(ApiError::InvalidIdempotencyKey)?;
                Ok(Self::FromClient(format!("rest/{account_id}/{key}")))
            }
            (Some(_), Some(_)) => Err(ApiError::InvalidIdempotencyKey),
        }
    }

    pub(super) const fn is_from_client(&self) -> bool {
        matches!(self, Self::FromClient(_))
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::FromClient(name) | Self::Generated(name) => name,
        }
    }

    /// Returns the error for the client, without mention of a key that the client did not choose.
    pub(super) fn explain(&self, error: ApiError) -> ApiError {
        match (self, error) {
            (Self::Generated(_), ApiError::IdempotencyInProgress { retry_after }) => {
                ApiError::Unavailable { retry_after }
            }
            (_, error) => error,
        }
    }
}

fn is_key(written: &str) -> bool {
    (1..=255).contains(&written.len()) && written.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(keys: &[&[u8]]) -> Result<CreationKey, ApiError> {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
        }
        CreationKey::from_headers(&headers, 7, &Clock::system())
    }

    #[test]
    fn a_key_is_one_field_of_1_to_255_visible_ascii_characters() {
        let key = parse(&[b"a/\"b!~"]).unwrap();
        assert!(key.is_from_client());
        assert_eq!(key.as_str(), "rest/7/a/\"b!~");
        assert!(parse(&[&[b'x'; 255]]).is_ok());
        let bad: [&[&[u8]]; 6] =
            [&[b""], &[b"a b"], &[b"a\tb"], &[b"\xc3\xa9"], &[&[b'x'; 256]], &[b"a", b"a"]];
        for keys in bad {
            assert_eq!(parse(keys), Err(ApiError::InvalidIdempotencyKey), "{keys:?}");
        }
    }

    #[test]
    fn without_a_key_every_request_has_its_own_creation_key() {
        let (one, other) = (parse(&[]).unwrap(), parse(&[]).unwrap());
        assert!(!one.is_from_client() && one != other);
        assert_eq!(one.as_str().len(), 36);
    }
}
