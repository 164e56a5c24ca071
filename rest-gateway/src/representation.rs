//! Content that does not change while the process runs: entity tags, conditional requests and gzip (RFC
//! 9110); and the header fields that keep pages harmless.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    sync::{Arc, LazyLock},
};

use axum::{
    body::Body,
    response::{AppendHeaders, IntoResponse, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY,
        CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    },
};

/// Body, its media type, and the status of the response. The body is made at the first request for it. Clones
/// share it.
#[derive(Clone)]
pub struct Representation {
    status: StatusCode,
    media_type: HeaderValue,
    content: Arc<LazyLock<Content, Box<dyn FnOnce() -> Content + Send>>>,
}

/// Body in one encoding, and its entity tag: a hash of the content, equal on every gateway of one release. A
/// strong tag names one sequence of bytes, so every encoding has a separate one.
type Encoded = (Bytes, HeaderValue);

/// Body in every encoding. It is compressed only if that is smaller.
struct Content {
    plain: Encoded,
    gzip: Option<Encoded>,
}

impl Representation {
    /// Creates it with a function that returns the body. `media_type` must be a field value.
    pub fn new<B: Into<Bytes>>(
        status: StatusCode,
        media_type: &'static str,
        body: impl FnOnce() -> B + Send + 'static,
    ) -> Self {
        let content = LazyLock::new(Box::new(|| Content::new(body().into())) as _);
        Self { status, media_type: HeaderValue::from_static(media_type), content: Arc::new(content) }
    }

    /// Returns a page.
    pub fn html(status: StatusCode, body: impl FnOnce() -> String + Send + 'static) -> Self {
        Self::new(status, "text/html; charset=utf-8", body)
    }

    /// Returns an embedded file, whose media type its name shows.
    pub fn asset(name: &str, content: &'static str) -> Self {
        let media_type = match name.rsplit('.').next() {
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml; charset=utf-8",
            _ => "text/javascript; charset=utf-8",
        };
        Self::new(StatusCode::OK, media_type, move || content)
    }

    /// Returns the body, compressed if the client accepts it. If the status is 200 and the client has the
    /// body, the answer is 304. With another status, the body replaces that of another resource and has no
    /// tag.
    pub fn answer(&self, request: &HeaderMap) -> Response {
        let gzip = self.content.gzip.as_ref().filter(|_| takes_gzip(request));
        let (body, tag) = gzip.unwrap_or(&self.content.plain);
        let has_tag = self.status == StatusCode::OK;
        let mut response = if has_tag && is_named(tag, request) {
            // The length of 200 (RFC 9110 §8.6): the router would add that of the empty body.
            (StatusCode::NOT_MODIFIED, [(CONTENT_LENGTH, body.len())]).into_response()
        } else {
            let media_type = [(CONTENT_TYPE, self.media_type.clone())];
            let encoding = gzip.map(|_| [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
            (self.status, media_type, AppendHeaders(encoding.into_iter().flatten()), Body::from(body.clone()))
                .into_response()
        };
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if has_tag {
            response.headers_mut().insert(ETAG, tag.clone());
        }
        response
    }

    /// Returns the answer with the header fields of every page.
    pub fn page(&self, request: &HeaderMap) -> Response {
        strict(self.answer(request))
    }
}

impl Content {
    fn new(body: Bytes) -> Self {
        let mut hasher = DefaultHasher::new(); // its keys are fixed
        body.hash(&mut hasher);
        let hash = hasher.finish();
        // Hexadecimal digits and letters in quotes are always a field value.
        let tag = |suffix| {
            HeaderValue::try_from(format!("\"{hash:016x}{suffix}\""))
                .unwrap_or(HeaderValue::from_static("\"\""))
        };
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let compressed = encoder.write_all(&body).and_then(|()| encoder.finish()); // cannot fail: it is a Vec
        let smaller = compressed.ok().filter(|compressed| compressed.len() < body.len());
        Self { gzip: smaller.map(|compressed| (compressed.into(), tag("-gzip"))), plain: (body, tag("")) }
    }
}

/// Returns `true` if `Accept-Encoding` accepts gzip and does not prefer the plain body (RFC 9110 §12.5.3).
fn takes_gzip(request: &HeaderMap) -> bool {
    let weight = |ranges: &[&str]| weight(request, &ACCEPT_ENCODING, ranges).unwrap_or(0.0);
    let gzip = weight(&["gzip", "x-gzip", "*"]);
    gzip > 0.0 && gzip >= weight(&["identity", "*"])
}

/// Returns the weight that a field such as `Accept` gives to what these ranges match, the most specific
/// first: that of the first one that it names (RFC 9110 §12.5.1). `None` if it names none.
pub(crate) fn weight(request: &HeaderMap, field: &HeaderName, ranges: &[&str]) -> Option<f32> {
    let weight_of = |item: &str, range| {
        let mut parts = item.split(';').take(MAX_ITEMS).map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(range) {
            return None;
        }
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let parse = |weight: &str| weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
        Some(weight.map_or(1.0, |weight| parse(weight).unwrap_or(0.0)))
    };
    let named = |range| list(request, field).filter_map(move |item| weight_of(item, range)).reduce(f32::max);
    ranges.iter().find_map(|range| named(range))
}

/// Returns `true` if `If-None-Match` (RFC 9110 §13.1.2) names the tag, by weak comparison.
fn is_named(tag: &HeaderValue, request: &HeaderMap) -> bool {
    list(request, &IF_NONE_MATCH)
        .any(|named| named == "*" || named.strip_prefix("W/").unwrap_or(named).as_bytes() == tag.as_bytes())
}

/// Maximum number of items of a list, and of parts of an item, that are looked at. Clients send a dozen; over
/// HTTP/2, a byte repeats a field of 4 KiB.
pub(crate) const MAX_ITEMS: usize = 64;

/// Returns the first items of a field that is a list.
fn list<'a>(request: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let fields = request.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    fields.flat_map(|list| list.split(',')).take(MAX_ITEMS).map(str::trim)
}

/// Content security policy of the pages: only resources of this server, no inline script or style, no form
/// that is sent, no frame, and no text that becomes markup. The page handles an API key.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Header fields of every answer of the documentation.
const ON_EVERY_ANSWER: [(HeaderName, HeaderValue); 5] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Stored, but revalidated each time: a new release is visible at once, and an unchanged file is answered
    // with 304.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Returns the response with the header fields of every answer.
pub fn strict(mut response: Response) -> Response {
    response.headers_mut().extend(ON_EVERY_ANSWER);
    response
}

/// Embeds files of a folder beside the file that uses it: the name and content of each.
#[macro_export]
macro_rules! embedded {
    ($folder:literal: $($name:literal)*) => {
        [$(($name, include_str!(concat!($folder, $name)))),*]
    };
}
#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    const TEXT: &str = "many many many many many many many many words that are the same";

    #[test]
    fn no_more_than_the_first_items_of_a_list_are_looked_at() {
        let weight_after = |items: usize| {
            let list = ",".repeat(items) + "text/html;q=0.5";
            let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, list.parse().unwrap())]);
            weight(&fields, &ACCEPT_ENCODING, &["text/html"])
        };
        assert_eq!((weight_after(MAX_ITEMS - 1), weight_after(MAX_ITEMS)), (Some(0.5), None));
    }

    fn ask(representation: &Representation, fields: &[(http::HeaderName, &'static str)]) -> Response {
        let mut request = HeaderMap::new();
        for (name, value) in fields {
            request.append(name, HeaderValue::from_static(value));
        }
        representation.answer(&request)
    }

    async fn body(response: Response) -> Vec<u8> {
        response.into_body().collect().await.unwrap().to_bytes().to_vec()
    }

    #[tokio::test]
    async fn a_representation_is_compressed_only_for_clients_that_accept_gzip() {
        let text = Representation::new(StatusCode::OK, "text/plain", || TEXT);
        for accepted in [
            "gzip",
            "br, gzip",
            "GZIP;q=0.5",
            "*",
            "identity;q=0, *;q=1",
            "br;q=1.0,gzip;q=0.8",
            "identity;q=0.4, gzip;q=0.5",
            "identity, x-gzip",
            "*;q=0.5, identity;q=0.4",
        ] {
            let answer = ask(&text, &[(ACCEPT_ENCODING, accepted)]);
            assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip", "{accepted}");
            assert_eq!(answer.headers()[VARY], "Accept-Encoding");
            let mut read = String::new();
            GzDecoder::new(body(answer).await.as_slice()).read_to_string(&mut read).unwrap();
            assert_eq!(read, TEXT);
        }
        for refused in [
            "",
            "br",
            "gzip;q=0",
            "gzip; q=0.000, *",
            "identity",
            "gzip;q=x",
            "gzip;q=NaN",
            "gzipped",
            "*;q=0",
            "identity;q=0.5, gzip;q=0.4",
            "gzip;q=0.5, *",
            "identity, *;q=0.9",
        ] {
            let answer = ask(&text, &[(ACCEPT_ENCODING, refused)]);
            assert_eq!(answer.headers().get(CONTENT_ENCODING), None, "{refused}");
            assert_eq!(answer.headers()[VARY], "Accept-Encoding");
            assert_eq!(body(answer).await, TEXT.as_bytes());
        }
    }

    #[test]
    fn each_encoding_has_its_own_etag_and_a_match_is_not_sent_again() {
        let text = Representation::new(StatusCode::OK, "text/plain", || TEXT);
        let plain = ask(&text, &[]).headers()[ETAG].clone();
        let gzip = ask(&text, &[(ACCEPT_ENCODING, "gzip")]).headers()[ETAG].clone();
        assert_ne!(plain, gzip);
        for (tag, accepted, status) in [
            (&plain, "", StatusCode::NOT_MODIFIED),
            (&gzip, "gzip", StatusCode::NOT_MODIFIED),
            (&gzip, "", StatusCode::OK),
            (&plain, "gzip", StatusCode::OK),
        ] {
            let mut request = HeaderMap::new();
            request.insert(IF_NONE_MATCH, tag.clone());
            request.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            let answer = text.answer(&request);
            assert_eq!(answer.status(), status, "{tag:?} of a client that accepts {accepted:?}");
            assert_eq!(answer.headers()[VARY], "Accept-Encoding");
        }
    }

    #[test]
    fn a_text_that_gzip_would_enlarge_stays_plain() {
        let answer =
            ask(&Representation::new(StatusCode::OK, "text/plain", || "short"), &[(ACCEPT_ENCODING, "gzip")]);
        assert_eq!(answer.headers().get(CONTENT_ENCODING), None);
    }
}
