//! Extractors of the parts of a request, for handlers. The arguments of a handler are read one after the
//! other, and the first fault is the response, so their order is that of the faults (docs/contract.md, 4.1).
//! Extractors count the input that their operation does not have, so no handler can forget it (7.9).

use std::{marker::PhantomData, sync::Arc};

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use parking_lot::Mutex;
use petstore_caller::headers::only_field;
use petstore_clock::Clock;

use crate::{
    error::{ApiError, Place},
    gateway::GatewayState,
    json::{FromMembers, object},
    request::{Caller, uuid_v7},
    request_body,
    unknown_input::UnknownInput,
};

/// Resource, as its paths and lists name it.
pub(crate) trait Resource {
    /// Number of its list in cursors, to which that of the filter is added.
    const LIST: u8;
    /// Parameter that filters its list.
    const FILTER: Option<Filter> = None;
    /// Error for a path that names none, if the resource has paths of its own.
    const NOT_FOUND: ApiError = ApiError::RouteNotFound;
}

/// Parameter that filters a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    /// Its values, in the order of their numbers in the contract.
    pub(crate) words: &'static [&'static str],
}

/// Returns the unknown input of a request, which its extractors add to and [`pipeline`](crate::pipeline)
/// writes into the response.
pub(crate) fn unknown_input(parts: &Parts) -> Result<&Mutex<UnknownInput>, ApiError> {
    parts.extensions.get::<Arc<Mutex<UnknownInput>>>().map(AsRef::as_ref).ok_or(ApiError::Internal)
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get().cloned().ok_or(ApiError::Internal)
    }
}

/// No input: every parameter of the query is unknown.
pub(crate) struct NoInput;

impl<S: Sync> FromRequestParts<S> for NoInput {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut unknown = unknown_input(parts)?.lock();
        unknown.add_query(&parts.uri);
        unknown.refuse().map(|()| Self)
    }
}

/// Identifier of a resource in the path: an int64 in its canonical spelling, which has neither `+` nor a
/// leading zero. A resource has one URL, so any other segment names none.
pub(crate) struct PathId<R> {
    pub(crate) id: i64,
    resource: PhantomData<R>,
}

impl<S: Send + Sync, R: Resource> FromRequestParts<S> for PathId<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let segment = Path::<String>::from_request_parts(parts, state).await;
        let id = segment.ok().and_then(|Path(segment)| canonical(&segment));
        id.map(|id| Self { id, resource: PhantomData }).ok_or(R::NOT_FOUND)
    }
}

fn canonical(segment: &str) -> Option<i64> {
    let digits = segment.strip_prefix('-').unwrap_or(segment);
    let is_canonical = segment == "0" || digits.starts_with(|first| matches!(first, '1'..='9'));
    segment.parse().ok().filter(|_| is_canonical)
}

/// New resource and the key of its creation. Every parameter of the query is unknown. The whole body is read
/// before any of this is judged.
pub(crate) struct Creation<T> {
    pub(crate) key: CreationKey,
    pub(crate) resource: T,
}

impl<T: FromMembers> FromRequest<Arc<GatewayState>> for Creation<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, gateway: &Arc<GatewayState>) -> Result<Self, ApiError> {
        let caller: &Caller = request.extensions().get().ok_or(ApiError::Internal)?;
        let key = CreationKey::from_headers(request.headers(), caller.account_id, &gateway.clock);
        let unknown = request.extensions().get::<Arc<Mutex<UnknownInput>>>();
        let unknown = unknown.map(Arc::clone).ok_or(ApiError::Internal)?;
        unknown.lock().add_query(request.uri());
        let body = request_body::read_json(request).await?;

        let mut unknown = unknown.lock();
        let resource = object(&body).and_then(|members| {
            let others = members.names().filter(|name| !T::MEMBERS.contains(name));
            others.for_each(|name| unknown.add(Place::Body, name));
            T::from_members(&members)
        });
        unknown.refuse()?;
        Ok(Self { key: key?, resource: resource? })
    }
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Name of a creation, by which the core recognises its repetitions (docs/contract.md, 7.4).
#[derive(Debug, PartialEq)]
pub(crate) struct CreationKey {
    /// Name from the client, prefixed with its account; or a unique one from this gateway, so that it can
    /// repeat the call when the response of the core is lost.
    pub(crate) name: String,
    is_from_client: bool,
}

impl CreationKey {
    /// Reads `Idempotency-Key` of a request of the account.
    pub(crate) fn from_headers(
        headers: &HeaderMap,
        account_id: i64,
        clock: &Clock,
    ) -> Result<Self, ApiError> {
        let field = only_field(headers, IDEMPOTENCY_KEY).map_err(|_| ApiError::InvalidIdempotencyKey)?;
        let Some(key) = field else {
            return Ok(Self { name: uuid_v7(clock).to_string(), is_from_client: false });
        };
        let key = key.to_str().ok().filter(|key| is_key(key)).ok_or(ApiError::InvalidIdempotencyKey)?;
        Ok(Self { name: format!("rest/{account_id}/{key}"), is_from_client: true })
    }

    /// Returns the error for the client, without mention of a key that the client did not choose.
    pub(crate) fn explain(&self, error: ApiError) -> ApiError {
        match error {
            ApiError::IdempotencyInProgress { retry_after } if !self.is_from_client => {
                ApiError::Unavailable { retry_after }
            }
            error => error,
        }
    }

    /// Marks the response as a repetition of that to an earlier request. If only this gateway repeated the
    /// call, it is the first for the client.
    pub(crate) fn mark_replayed(&self, response: &mut Response) {
        if self.is_from_client {
            let field = HeaderName::from_static("idempotency-replayed");
            response.headers_mut().insert(field, HeaderValue::from_static("true"));
        }
    }
}

fn is_key(written: &str) -> bool {
    (1..=255).contains(&written.len()) && written.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the name of a creation by the account, or `None` if `Idempotency-Key` is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_creation_key(headers: &HeaderMap, account_id: i64) -> Option<String> {
    Some(CreationKey::from_headers(headers, account_id, &Clock::system()).ok()?.name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_one_field_of_1_to_255_visible_ascii_characters_and_without_one_each_request_has_its_own() {
        let parse = |keys: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
            }
            CreationKey::from_headers(&headers, 7, &Clock::system())
        };
        let name = "rest/7/a/\"b!~".to_owned();
        assert_eq!(parse(&[b"a/\"b!~"]), Ok(CreationKey { name, is_from_client: true }));
        assert!(parse(&[&[b'x'; 255]]).is_ok());
        let bad: [&[&[u8]]; 6] =
            [&[b""], &[b"a b"], &[b"a\tb"], &[b"\xc3\xa9"], &[&[b'x'; 256]], &[b"a", b"a"]];
        for keys in bad {
            assert_eq!(parse(keys), Err(ApiError::InvalidIdempotencyKey), "{keys:?}");
        }
        let (one, other) = (parse(&[]).unwrap(), parse(&[]).unwrap());
        assert!(!one.is_from_client && one != other && one.name.len() == 36);
    }

    #[test]
    fn only_the_canonical_spelling_of_an_int64_is_an_identifier() {
        for other in ["", "01", "+1", "-0", "1.0", "1e2", "0x1", " 1", "1 ", "x", "9223372036854775808", "١"]
        {
            assert_eq!(canonical(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_int64_names_itself(id: i64) {
            prop_assert_eq!(canonical(&id.to_string()), Some(id));
        }
    }
}
