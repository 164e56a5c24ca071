//! Checks a request's head before any other step reads it.

use std::net::Ipv6Addr;

use http::{HeaderValue, Version, header, request::Parts};
use petstore_caller::headers::only_field;

use crate::{error::ApiError, request_body::check_transfer_coding};

/// Refuses a target or header fields that are too large, a request that does not name its host once (RFC 9112
/// §3.2, RFC 9113 §8.3.1), and unknown transfer codings.
///
/// # Errors
///
/// The refusal.
pub fn check(request: &Parts) -> Result<(), ApiError> {
    // RFC 9110 §4.1 recommends at least 8000 bytes.
    if target_len(request) > 8 * 1024 {
        return Err(ApiError::UriTooLong);
    }
    // Each field with its ": " and line end.
    let fields = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if request.headers.len() > 100 || fields.sum::<usize>() > 32 * 1024 {
        return Err(ApiError::HeadersTooLarge);
    }
    if !names_its_host(request) {
        return Err(ApiError::InvalidHost);
    }
    check_transfer_coding(&request.headers)
}

fn names_its_host(request: &Parts) -> bool {
    let Ok(host) = only_field(&request.headers, header::HOST) else { return false };
    let Ok(field) = host.map(HeaderValue::to_str).transpose() else { return false };
    let named = match (request.version, field, request.uri.authority()) {
        // `:authority` takes the field's place. A client that sends both gives both the same value.
        (Version::HTTP_2, field, Some(authority)) => Some(authority.as_str())
            .filter(|authority| field.is_none_or(|field| authority.eq_ignore_ascii_case(field))),
        // The field was introduced after HTTP/1.0, whose clients need not send it.
        (Version::HTTP_10, None, _) => return true,
        (_, field, _) => field,
    };
    named.is_some_and(is_host)
}

/// Returns the length as it was sent: `/path?query`, or in HTTP/1 possibly an absolute URL.
fn target_len(Parts { uri, version, .. }: &Parts) -> usize {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if *version == Version::HTTP_2 {
        return path;
    }
    let scheme = uri.scheme_str().map_or(0, |scheme| scheme.len() + "://".len());
    scheme + uri.authority().map_or(0, |authority| authority.as_str().len()) + path
}

/// Returns `true` for `uri-host [ ":" port ]` (RFC 9110 §7.2). An empty host is valid only for a target
/// without an authority, and every target of the `http` scheme has one.
fn is_host(host: &str) -> bool {
    if let Some(literal) = host.strip_prefix('[') {
        return literal.split_once(']').is_some_and(|(address, port)| {
            // An IPv6 address or an address of a future kind (RFC 3986 §3.2.2).
            (address.starts_with(['v', 'V']) || address.parse::<Ipv6Addr>().is_ok()) && is_port(port)
        });
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    !name.is_empty() && is_registered_name(name) && is_port(port)
}

/// Returns `true` for `[ ":" port ]`. RFC 3986 §3.2.3 allows the digits to be missing.
fn is_port(port: &str) -> bool {
    let digits = port.strip_prefix(':').unwrap_or_default();
    (port.is_empty() || port.starts_with(':'))
        && digits.len() <= 5
        && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Returns `true` for a `reg-name` or an IPv4 address (RFC 3986 §3.2.2): unreserved characters, sub-delims
/// and percent-encoded octets.
fn is_registered_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let encoded = |after: &str| {
        after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    name.bytes().all(allowed) && name.split('%').skip(1).all(encoded)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Uri};
    use proptest::prelude::*;

    use super::*;

    fn request(hosts: &[&str]) -> Parts {
        let (mut request, ()) = http::Request::new(()).into_parts();
        for host in hosts {
            request.headers.append(header::HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        request
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_an_optional_port() {
        for host in
            ["shop.example", "localhost:8080", "127.0.0.1", "[::1]:80", "[::1]", "a_b~c", "%41.example", "h:"]
        {
            assert_eq!(check(&request(&[host])), Ok(()), "{host}");
        }
    }

    #[test]
    fn a_missing_repeated_or_malformed_host_is_refused() {
        let malformed = [
            "", ":80", "a b", "a/b", "a@b", "a:b", "a:1:2", "a:123456", "[::1", "::1", "[::g]", "[]",
            "[::1]80", "%4", "%zz", "a,\tb", "h\u{e9}", "a?b", "a#b", "<script>",
        ];
        for host in malformed {
            assert_eq!(check(&request(&[host])), Err(ApiError::InvalidHost), "{host}");
        }
        assert_eq!(check(&request(&[])), Err(ApiError::InvalidHost));
        assert_eq!(check(&request(&["shop.example", "shop.example"])), Err(ApiError::InvalidHost));
    }

    #[test]
    fn an_absolute_target_does_not_excuse_a_missing_or_malformed_host() {
        for (hosts, expected) in [
            (&[][..], Err(ApiError::InvalidHost)),
            (&["a b"], Err(ApiError::InvalidHost)),
            (&["other"], Ok(())),
        ] {
            let mut request = request(hosts);
            request.uri = Uri::from_static("http://shop.example/v1/pets");
            assert_eq!(check(&request), expected);
        }
    }

    #[test]
    fn http_1_0_may_leave_the_host_out() {
        let mut request = request(&[]);
        request.version = Version::HTTP_10;
        assert_eq!(check(&request), Ok(()));
    }

    #[test]
    fn in_http_2_the_authority_takes_the_hosts_place_and_agrees_with_it() {
        let check = |uri: &'static str, hosts: &[&str]| {
            let mut request = request(hosts);
            request.version = Version::HTTP_2;
            request.uri = Uri::from_static(uri);
            super::check(&request)
        };
        for hosts in [&[][..], &["shop.example:8443"], &["SHOP.example:8443"]] {
            assert_eq!(check("https://shop.example:8443/v1/pets", hosts), Ok(()), "{hosts:?}");
        }
        assert_eq!(check("/v1/pets", &["shop.example"]), Ok(()), "translated from HTTP/1.1");
        for hosts in [&["other.example"][..], &["shop.example"], &["shop.example:8443"; 2], &[""]] {
            let refused = check("https://shop.example:8443/v1/pets", hosts);
            assert_eq!(refused, Err(ApiError::InvalidHost), "{hosts:?}");
        }
        assert_eq!(check("/v1/pets", &[]), Err(ApiError::InvalidHost));
        assert_eq!(check("https://user@shop.example/v1/pets", &[]), Err(ApiError::InvalidHost));
    }

    #[test]
    fn in_http_2_the_target_is_the_path() {
        let mut request = request(&[]);
        request.version = Version::HTTP_2;
        for (len, expected) in [(8192, Ok(())), (8193, Err(ApiError::UriTooLong))] {
            request.uri = format!("https://shop.example/{}", "y".repeat(len - 1)).parse().unwrap();
            assert_eq!(check(&request), expected);
        }
    }

    #[test]
    fn a_target_of_8_kib_is_the_longest() {
        for (len, expected) in [(8192, Ok(())), (8193, Err(ApiError::UriTooLong))] {
            let mut request = request(&["shop.example"]);
            request.uri = format!("/v1/pets?x={}", "y".repeat(len - 11)).parse().unwrap();
            assert_eq!(check(&request), expected);
            request.uri = format!("http://h/{}", "y".repeat(len - 9)).parse().unwrap();
            assert_eq!(check(&request), expected);
        }
    }

    #[test]
    fn a_hundred_fields_are_the_most_and_32_kib_the_largest() {
        let with = |fields: usize, value: usize| {
            let mut request = request(&["h"]);
            for _ in 1..fields {
                request.headers.append("x", HeaderValue::from_bytes(&vec![b'v'; value]).unwrap());
            }
            check(&request)
        };
        assert_eq!(with(100, 1), Ok(()));
        assert_eq!(with(101, 1), Err(ApiError::HeadersTooLarge));
        // `host: h\r\n` is 9 bytes, `x: …\r\n` 5 more than its value.
        assert_eq!(with(2, 32 * 1024 - 14), Ok(()));
        assert_eq!(with(2, 32 * 1024 - 13), Err(ApiError::HeadersTooLarge));
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        for (codings, expected) in [
            (&["chunked"][..], Ok(())),
            (&["Chunked"], Ok(())),
            (&["gzip, chunked"], Err(ApiError::UnsupportedTransferCoding)),
            (&["gzip", "chunked"], Err(ApiError::UnsupportedTransferCoding)),
            (&["identity"], Err(ApiError::UnsupportedTransferCoding)),
        ] {
            let mut request = request(&["shop.example"]);
            for coding in codings {
                request.headers.append(header::TRANSFER_ENCODING, HeaderValue::from_static(coding));
            }
            assert_eq!(check(&request), expected, "{codings:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_host_check_panic(host in proptest::collection::vec(32_u8..=255, 0..40)) {
            let mut request = request(&[]);
            if let Ok(host) = HeaderValue::from_bytes(&host) {
                request.headers.insert(header::HOST, host);
            }
            let _ = check(&request);
        }
    }
}
