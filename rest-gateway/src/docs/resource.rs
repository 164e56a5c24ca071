//! One thing that can be fetched, and the headers that keep it harmless.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS,
    },
};

/// Nothing but what this server itself serves, no inline script or style, no form that is sent, no frame, no
/// text that becomes markup: the page handles an API key.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// On every answer of the documentation.
const ON_EVERY_ANSWER: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Kept, but asked for each time: a new release shows at once, and an unchanged file costs a 304.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// A body that never changes while the process runs. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    status: StatusCode,
    media_type: HeaderValue,
    body: Bytes,
    /// An entity tag (RFC 9110 §8.8.3), from the body's content: equal on every gateway of one release.
    etag: HeaderValue,
}

impl Resource {
    pub(super) fn html(status: StatusCode, body: String) -> Self {
        Self::new(status, "text/html; charset=utf-8", body)
    }

    pub(super) fn new(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let etag = entity_tag(&body);
        Self { status, media_type: HeaderValue::from_static(media_type), body, etag }
    }

    /// The resource; or 304 if the client says that it has it.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        let mut response = if self.status == StatusCode::OK && self.is_named_in(request) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let mut response = Response::new(Body::from(self.body.clone()));
            *response.status_mut() = self.status;
            response.headers_mut().insert(CONTENT_TYPE, self.media_type.clone());
            response
        };
        if self.status == StatusCode::OK {
            response.headers_mut().insert(ETAG, self.etag.clone());
        }
        strict(response)
    }

    /// `If-None-Match` (RFC 9110 §13.1.2), by weak comparison.
    fn is_named_in(&self, request: &HeaderMap) -> bool {
        request
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == self.etag.as_bytes())
    }
}

/// The response with what every answer carries.
pub(super) fn strict(mut response: Response) -> Response {
    response.headers_mut().extend(ON_EVERY_ANSWER);
    response
}

fn entity_tag(body: &[u8]) -> HeaderValue {
    let mut hasher = DefaultHasher::new(); // its keys are fixed
    body.hash(&mut hasher);
    // Sixteen hexadecimal digits in quotes are always a field value.
    HeaderValue::try_from(format!("\"{:016x}\"", hasher.finish()))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}
