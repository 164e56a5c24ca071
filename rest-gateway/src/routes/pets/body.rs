//! Reads a JSON request body within bounds of type, size and time.

use std::{error::Error, time::Duration};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::error::ApiError;

/// The largest body, in bytes.
const MAX_LEN: usize = 64 * 1024;
/// How long a body may take to arrive.
const TIME: Duration = Duration::from_secs(5);

/// The whole body of the request.
pub(super) async fn read_json(request: Request) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return Err(ApiError::UnsupportedMediaType);
    }
    // With a Content-Length, the lower bound is known before a byte has been read.
    if body.size_hint().lower() > MAX_LEN as u64 {
        return Err(ApiError::BodyTooLarge);
    }
    match timeout(TIME, Limited::<Body>::new(body, MAX_LEN).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge),
        Ok(Err(error)) => {
            tracing::debug!(error = &*error as &dyn Error, "could not read a body");
            Err(ApiError::BrokenBody)
        }
        Err(_) => Err(ApiError::RequestTimeout),
    }
}

/// Whether the body is declared as JSON in UTF-8 without a content coding, or not declared at all (RFC 8259 §8.1
/// knows no other encoding, RFC 9110 §8.3 lets a recipient assume).
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).into_iter();
    let json = match (types.next(), types.next()) {
        (None, _) => true,
        (Some(only), None) => only.to_str().is_ok_and(is_json_type),
        _ => false,
    };
    json && !headers.contains_key(header::CONTENT_ENCODING)
}

/// `application/json`, whose parameters are without meaning (RFC 8259 §11) unless they contradict UTF-8.
fn is_json_type(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(|part| part.trim_matches([' ', '\t']));
    parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, charset)) if name.eq_ignore_ascii_case("charset") => {
                charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("\"utf-8\"")
            }
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn declared(fields: &[(HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        is_json(&headers)
    }

    #[test]
    fn json_in_utf_8_may_be_declared_in_any_case_or_not_at_all() {
        assert!(declared(&[]));
        let types = [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/json; Charset=\"utf-8\"",
            "application/json;",
            "application/json; profile=x",
        ];
        for media_type in types {
            assert!(declared(&[(header::CONTENT_TYPE, media_type)]), "{media_type}");
        }
    }

    #[test]
    fn another_type_charset_or_coding_is_unsupported() {
        let types = [
            "",
            "text/plain",
            "application/json; charset=latin1",
            "application/jsonp",
            "application/problem+json",
            "application/json; charset=utf-8; charset=utf-16",
            "application/json, text/plain",
        ];
        for media_type in types {
            assert!(!declared(&[(header::CONTENT_TYPE, media_type)]), "{media_type}");
        }
        let json = (header::CONTENT_TYPE, "application/json");
        assert!(!declared(&[json.clone(), (header::CONTENT_ENCODING, "gzip")]));
        assert!(!declared(&[json.clone(), json]));
    }

    async fn read(body: Body) -> Result<Bytes, ApiError> {
        read_json(Request::new(body)).await
    }

    fn chunks(len: usize, count: usize) -> Body {
        let chunk = Bytes::from(vec![b' '; len]);
        Body::from_stream(stream::iter((0..count).map(move |_| std::io::Result::Ok(chunk.clone()))))
    }

    #[tokio::test]
    async fn a_body_of_64_kib_is_the_largest_announced_or_not() {
        assert_eq!(read(Body::from(vec![b' '; 65_536])).await.unwrap().len(), 65_536);
        assert_eq!(read(Body::from(vec![b' '; 65_537])).await, Err(ApiError::BodyTooLarge));
        assert_eq!(read(chunks(1_024, 64)).await.unwrap().len(), 65_536);
        assert_eq!(read(chunks(1_024, 65)).await, Err(ApiError::BodyTooLarge));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_refused() {
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("reset"))]);
        assert_eq!(read(Body::from_stream(broken)).await, Err(ApiError::BrokenBody));
    }
}
