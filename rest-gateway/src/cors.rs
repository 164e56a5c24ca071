//! Cross-origin resource sharing (Fetch Standard): the web pages that may read answers. Off by default, and
//! on once an origin is configured.
//!
//! tower-http's layer is not used, because it treats every OPTIONS as a preflight. Here OPTIONS is also a
//! request in its own right, which is answered with `Allow`.

use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, request::Parts};
use petstore_caller::headers::only_field;

/// Origin whose pages may read answers, written as browsers send it: `https://shop.example` or
/// `http://localhost:3000`; or `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsOrigin(HeaderValue);

impl FromStr for CorsOrigin {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "must be * or an origin in lower case without a path, such as https://shop.example";
        if written == "*" {
            return Ok(Self(HeaderValue::from_static("*")));
        }
        let uri: Uri = written.parse().map_err(|_| FORM)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(FORM);
        };
        let as_sent = format!("{scheme}://{authority}").to_ascii_lowercase();
        if written != as_sent || authority.as_str().contains('@') {
            return Err(FORM);
        }
        HeaderValue::try_from(as_sent).map(Self).map_err(|_| FORM)
    }
}

/// Header fields that a granted page may read.
pub(crate) const EXPOSE_HEADERS: &str = "x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, \
     x-ratelimit-scope, ratelimit, ratelimit-policy, retry-after, link, x-next-cursor, location, \
     deprecation, sunset, x-request-id, x-stability, x-api-key-expires, idempotency-replayed, allow, \
     www-authenticate, accept, accept-encoding, x-ignored-input, preference-applied, etag";

/// Rights of the request's origin to the answer.
pub(crate) struct Grant {
    allow_origin: Option<HeaderValue>,
    /// `true` if the answer depends on the request's origin.
    vary: bool,
    /// Method that the page intends to use, if the request is a preflight.
    preflight: Option<HeaderValue>,
}

/// Returns the rights of the request's origin; `None` while CORS is off.
pub(crate) fn judge(origins: &[CorsOrigin], request: &Parts) -> Option<Grant> {
    if origins.is_empty() {
        return None;
    }
    let any = origins.iter().any(|known| known.0 == "*");
    let origin = only_field(&request.headers, header::ORIGIN).ok().flatten();
    let allow_origin = if any {
        origin.map(|_| HeaderValue::from_static("*"))
    } else {
        origin.filter(|origin| origins.iter().any(|known| known.0 == *origin)).cloned()
    };
    let intended = request.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
    let preflight = intended.filter(|_| request.method == Method::OPTIONS).cloned();
    Some(Grant { allow_origin, vary: !any, preflight })
}

impl Grant {
    /// Returns `true` for a preflight of a page that may read answers. It is allowed for any path and method,
    /// because otherwise the page could not read the Error with which the request itself is refused.
    pub(crate) const fn allows_preflight(&self) -> bool {
        self.preflight.is_some() && self.allow_origin.is_some()
    }

    /// Writes the grant into the answer's header fields.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if self.vary {
            headers.append(header::VARY, HeaderValue::from_name(HeaderName::from_static("origin")));
        }
        let Some(origin) = self.allow_origin.clone() else { return };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if let Some(intended) = &self.preflight {
            let served = headers.get(header::ALLOW).filter(|served| lists(served, intended));
            let methods = served.unwrap_or(intended).clone();
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            let may_be_sent = "authorization, content-type, idempotency-key, x-request-id, prefer, \
                 traceparent, tracestate";
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(may_be_sent));
            // Seconds. Browsers remember this for a day at most; with an hour, a change takes effect soon.
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
        } else {
            let exposed = HeaderValue::from_static(EXPOSE_HEADERS);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

/// Returns `true` if the method is one of those in the list.
fn lists(methods: &HeaderValue, method: &HeaderValue) -> bool {
    methods.to_str().is_ok_and(|methods| methods.split(", ").any(|listed| method == listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_right_to_it_a_response_only_varies_by_origin() {
        let origins = ["https://other.example".parse().unwrap()];
        let (mut request, ()) = http::Request::new(()).into_parts();
        request.headers.insert(header::ORIGIN, HeaderValue::from_static("https://shop.example"));
        let mut headers = HeaderMap::new();
        judge(&origins, &request).unwrap().write(&mut headers);
        assert_eq!((headers.len(), &headers["vary"]), (1, &HeaderValue::from_static("origin")));
    }

    #[test]
    fn a_request_with_two_origins_has_the_right_of_none() {
        let origins = ["https://shop.example".parse().unwrap()];
        let (mut request, ()) = http::Request::new(()).into_parts();
        request.headers.insert(header::ORIGIN, HeaderValue::from_static("https://shop.example"));
        assert!(judge(&origins, &request).unwrap().allow_origin.is_some());
        request.headers.append(header::ORIGIN, HeaderValue::from_static("https://other.example"));
        assert!(judge(&origins, &request).unwrap().allow_origin.is_none());
    }

    #[test]
    fn only_an_origin_in_the_form_of_browsers_can_be_configured() {
        for good in ["*", "https://shop.example", "http://localhost:3000", "http://[::1]:8080"] {
            assert!(good.parse::<CorsOrigin>().is_ok(), "{good}");
        }
        let bad = ["", "shop.example", "https://shop.example/", "https://Shop.example", "ftp://shop.example"];
        for bad in bad.into_iter().chain(["https://a@shop.example", "null", "https://shop.example/x"]) {
            assert!(bad.parse::<CorsOrigin>().is_err(), "{bad}");
        }
    }
}
