//! A resource that can be fetched, and the header fields that keep it harmless.

use axum::response::Response;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
};

use crate::representation::Representation;

/// Content security policy of the pages: only resources of this server, no inline script or style, no form
/// that is sent, no frame, and no text that becomes markup. The page handles an API key.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Header fields of every answer of the documentation.
const ON_EVERY_ANSWER: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Stored, but revalidated each time: a new release is visible at once, and an unchanged file is answered
    // with 304.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// A page or an asset. Clones share the body.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    status: StatusCode,
    content: Representation,
}

impl Resource {
    pub(crate) fn html(status: StatusCode, body: String) -> Self {
        Self::new(status, "text/html; charset=utf-8", body)
    }

    pub(crate) fn new(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content: Representation::new(media_type, body) }
    }

    /// Returns the resource, or 304 if the client already has it.
    pub(crate) fn answer(&self, request: &HeaderMap) -> Response {
        strict(if self.status == StatusCode::OK {
            self.content.answer(request)
        } else {
            self.content.with_status(self.status, request)
        })
    }
}

/// Returns the response with the header fields of every answer.
pub(crate) fn strict(mut response: Response) -> Response {
    response.headers_mut().extend(ON_EVERY_ANSWER);
    response
}
