//! Context of a request: its id in the logs of client, gateway and core (`X-Request-Id`), its authenticated
//! caller, and the path that a proxy removed from it.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use petstore_caller::{call::RequestId, client_address::TrustedProxies, headers::only_field};
use petstore_clock::Clock;
use petstore_key_cache::KnownKey;
use petstore_rate_limit::LimitStatus;
use uuid::Uuid;

/// Header field, and the name of the metadata that the core sees.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static(petstore_caller::call::X_REQUEST_ID);

/// Returns the client's own id for the request if it sent one that is fit for a log. Otherwise returns a new
/// UUID of version 7 (RFC 9562 §5.7), which sorts after earlier ones.
pub(crate) fn request_id(headers: &HeaderMap, clock: &Clock) -> RequestId {
    let own = only_field(headers, X_REQUEST_ID).ok().flatten().and_then(RequestId::parse);
    own.unwrap_or_else(|| RequestId::new(uuid_v7(clock)))
}

/// Authenticated sender of a request. Only a request with a valid key has one, so a handler that takes it
/// cannot be reached without a valid key. Its limits allow the request, or will before a read is answered.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) account_id: i64,
    pub(crate) request_id: RequestId,
    /// The key, and the limits of the account, for a request for its usage.
    pub(crate) limits: Option<(Arc<KnownKey>, Box<LimitStatus>)>,
}

/// Returns a UUID of version 7 (RFC 9562 §5.7), with enough random bits that no two gateways choose the
/// same.
pub(crate) fn uuid_v7(clock: &Clock) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(clock.now().0, &rand::random()).into_uuid()
}

const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The path of the service's base address that a proxy removes: `/api/store` of
/// `https://shop.example/api/store/v1`. References in header fields and bodies begin with it
/// (docs/contract.md, 10.8). It begins with `/`, does not end with it, and has at most 255 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForwardedPrefix(Arc<str>);

impl ForwardedPrefix {
    /// Returns the path that a trusted proxy names in `X-Forwarded-Prefix`. A malformed or repeated field is
    /// ignored, because a client may have sent it.
    pub(crate) fn of(proxies: &TrustedProxies, peer: IpAddr, headers: &HeaderMap) -> Option<Self> {
        let only = only_field(headers, X_FORWARDED_PREFIX).ok()??;
        let path = only.to_str().ok().filter(|_| proxies.trusts(peer))?.trim_end_matches('/');
        is_path(path).then(|| Self(path.into()))
    }

    /// Returns the path with which a client reaches `path`.
    pub(crate) fn before(&self, path: &str) -> String {
        [&self.0, path].concat()
    }

    /// Puts the prefix before every path of this server in `Location` and `Link`.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in headers.iter_mut() {
            let Ok(text) = value.to_str() else { continue };
            let prefixed = if name == header::LINK {
                text.replace("</", &["<", &self.before("/")].concat())
            } else if name == header::LOCATION && text.starts_with('/') {
                self.before(text)
            } else if name == header::LOCATION && !text.starts_with("../") {
                // Of `/`: the client may have left out the slash at the end of the base address.
                self.before(&["/", text].concat())
            } else {
                continue;
            };
            *value = HeaderValue::try_from(prefixed).unwrap_or_else(|_| value.clone());
        }
    }
}

/// Returns `true` for one or more segments of unreserved characters (RFC 3986 §2.3), which lead to no other
/// host and to no folder above.
fn is_path(path: &str) -> bool {
    let is_segment = |segment: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain)
    };
    path.len() <= 255 && path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use petstore_caller::api_key::{ApiKey, Environment};
    use petstore_clock::UnixMillis;

    use super::*;

    fn of(sent: &[&str]) -> String {
        let (clock, _) = Clock::manual(UnixMillis(0x0191_2345_6789));
        let mut headers = HeaderMap::new();
        for id in sent {
            headers.append(X_REQUEST_ID, HeaderValue::from_str(id).unwrap());
        }
        request_id(&headers, &clock).as_str().to_owned()
    }

    #[test]
    fn a_fit_name_is_kept() {
        let longest = "x".repeat(64);
        for id in ["order-66", "A.b_c-09", "pet_live", "pet-live-order-66", &longest] {
            assert_eq!(of(&[id]), id);
        }
    }

    #[test]
    fn an_invalid_or_repeated_request_id_is_replaced_by_a_uuid() {
        let too_long = "x".repeat(65);
        let key = ApiKey::generate(Environment::Production);
        for sent in [
            &[][..],
            &["seven77"],
            &[&too_long],
            &["with space"],
            &["tab\tbed--"],
            &["order-66"; 2],
            &[key.expose()],
            &[&format!("k.{}", key.expose())],
            &[&format!("{}-1", key.expose())],
            &[&format!("retry_{}", &key.expose()[..44])],
            &[&key.expose().to_ascii_uppercase()],
        ] {
            let id = of(sent);
            assert!(id.starts_with("01912345-6789-7") && id.len() == 36, "{id}");
        }
        assert_ne!(of(&[]), of(&[]));
    }

    fn forwarded(peer: [u8; 4], fields: &[&'static str]) -> Option<ForwardedPrefix> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(X_FORWARDED_PREFIX, HeaderValue::from_static(field));
        }
        let proxies = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        ForwardedPrefix::of(&proxies, peer.into(), &headers)
    }

    #[test]
    fn only_one_plain_path_of_a_trusted_proxy_is_believed() {
        let proxy = [10, 0, 0, 1];
        for (field, path) in [("/api/store", "/api/store"), ("/a/", "/a"), ("/~shop-1.x", "/~shop-1.x")] {
            assert_eq!(forwarded(proxy, &[field]), Some(ForwardedPrefix(path.into())));
            assert_eq!(forwarded([192, 0, 2, 1], &[field]), None, "of a client");
            assert_eq!(forwarded(proxy, &[field, field]), None, "one of them may be the client's");
        }
        let long: &'static str = Box::leak(format!("/{}", "x".repeat(255)).into_boxed_str());
        for field in [
            "",
            "/",
            "api",
            "//evil.example",
            "/a//b",
            "/..",
            "/a/./b",
            "/a b",
            "/a>",
            "/a%2F",
            "/a, /b",
            long,
        ] {
            assert_eq!(forwarded(proxy, &[field]), None, "{field}");
        }
    }

    #[test]
    fn every_path_of_location_and_link_begins_with_it_and_nothing_else_does() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::LOCATION, "/v1/pets/7"),
            (header::LINK, r#"</v1/pets?limit=1&cursor=a%2Fb>; rel="next", </v1/pets?limit=1>; rel="first""#),
            (header::LINK, r#"</docs/errors/PET_NOT_FOUND>; rel="help""#),
            (header::LINK, r#"<https://other.example/>; rel="license""#),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        ForwardedPrefix("/api".into()).write(&mut headers);
        assert_eq!(headers[header::LOCATION], "/api/v1/pets/7");
        for (location, prefixed) in [("docs", "/api/docs"), ("../docs", "../docs")] {
            let mut headers = HeaderMap::from_iter([(header::LOCATION, HeaderValue::from_static(location))]);
            ForwardedPrefix("/api".into()).write(&mut headers);
            assert_eq!(headers[header::LOCATION], prefixed);
        }
        let links: Vec<_> = headers.get_all(header::LINK).iter().map(|link| link.to_str().unwrap()).collect();
        assert_eq!(
            links,
            [
                r#"</api/v1/pets?limit=1&cursor=a%2Fb>; rel="next", </api/v1/pets?limit=1>; rel="first""#,
                r#"</api/docs/errors/PET_NOT_FOUND>; rel="help""#,
                r#"<https://other.example/>; rel="license""#,
            ]
        );
    }
}
