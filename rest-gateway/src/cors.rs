//! Cross-origin resource sharing (Fetch Standard): the web pages that may read answers. Off by default, and
//! on once an origin is configured.
//!
//! tower-http's layer is not used, because it treats every OPTIONS as a preflight. Here OPTIONS is also a
//! request in its own right, which is answered with `Allow`.

use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, request::Parts};

/// Origin whose pages may read answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigin {
    /// Any origin, written `*`.
    Any,
    /// One origin, written as browsers send it: `https://shop.example` or `http://localhost:3000`.
    Exactly(HeaderValue),
}

impl FromStr for CorsOrigin {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "must be * or an origin in lower case without a path, such as https://shop.example";
        if written == "*" {
            return Ok(Self::Any);
        }
        let uri: Uri = written.parse().map_err(|_| FORM)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(FORM);
        };
        let as_sent = format!("{scheme}://{authority}").to_ascii_lowercase();
        if written != as_sent || authority.as_str().contains('@') {
            return Err(FORM);
        }
        HeaderValue::try_from(as_sent).map(Self::Exactly).map_err(|_| FORM)
    }
}

/// Header fields that a granted page may read.
pub(crate) const EXPOSE_HEADERS: &str = "x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, \
     x-ratelimit-scope, ratelimit, ratelimit-policy, retry-after, link, x-next-cursor, location, \
     deprecation, sunset, x-request-id, x-stability, x-api-key-expires, idempotency-replayed, allow, \
     www-authenticate, accept, accept-encoding, x-ignored-input, preference-applied, etag";

/// Rights of the request's origin to the answer.
#[derive(Debug)]
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
    let any = origins.contains(&CorsOrigin::Any);
    let origin = request.headers.get(header::ORIGIN);
    let allow_origin = if any {
        origin.map(|_| HeaderValue::from_static("*"))
    } else {
        let known = |origin: &&HeaderValue| {
            origins.iter().any(|known| matches!(known, CorsOrigin::Exactly(known) if known == *origin))
        };
        origin.filter(known).cloned()
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
        let Some(origin) = self.allow_origin.clone() else {
            return;
        };
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

    fn granted(origins: &[&str], method: Method, fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let origins: Vec<CorsOrigin> = origins.iter().map(|origin| origin.parse().unwrap()).collect();
        let (mut request, ()) = http::Request::new(()).into_parts();
        request.method = method;
        for (name, value) in fields {
            request.headers.append(*name, HeaderValue::from_static(value));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        if let Some(grant) = judge(&origins, &request) {
            grant.write(&mut headers);
        }
        headers.remove(header::ALLOW);
        headers
    }

    const SHOP: (&str, &str) = ("origin", "https://shop.example");
    const PREFLIGHT: (&str, &str) = ("access-control-request-method", "GET");

    #[test]
    fn nothing_is_granted_until_an_origin_is_configured() {
        assert!(granted(&[], Method::OPTIONS, &[SHOP, PREFLIGHT]).is_empty());
    }

    #[test]
    fn a_configured_origin_may_read_the_limit_headers() {
        let headers = granted(&["http://other.example", "https://shop.example"], Method::GET, &[SHOP]);
        assert_eq!(headers["access-control-allow-origin"], "https://shop.example");
        assert_eq!(headers["vary"], "origin");
        let exposed = headers["access-control-expose-headers"].to_str().unwrap();
        for name in ["x-ratelimit-limit", "retry-after", "link", "x-next-cursor", "location", "sunset"] {
            assert!(exposed.split(", ").any(|exposed| exposed == name), "{name}");
        }
    }

    #[test]
    fn another_origin_is_refused_and_the_answer_varies_by_origin() {
        let headers = granted(&["https://other.example"], Method::GET, &[SHOP]);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers["vary"], "origin");
    }

    #[test]
    fn a_preflight_lists_the_methods_of_the_path() {
        let headers = granted(&["*"], Method::OPTIONS, &[SHOP, PREFLIGHT]);
        assert_eq!(headers["access-control-allow-origin"], "*");
        assert_eq!(headers["access-control-allow-methods"], "GET, HEAD");
        assert!(headers["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
        assert!(!headers.contains_key("vary"));
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
