//! Request bodies, read within bounds of type, size and time.

use std::{error::Error, time::Duration};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use petstore_caller::headers::only_field;
use tokio::time::timeout;

use crate::error::ApiError;

/// Returns the body of a request that is JSON.
///
/// # Errors
///
/// If it is declared as anything else, or cannot be [read].
pub async fn read_json(request: Request) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    check_type(&parts.headers)?;
    read(body).await
}

/// Returns the whole body: at most 64 KiB, which must arrive within 5 s.
///
/// # Errors
///
/// If it is too large, too late or breaks off.
pub async fn read(body: Body) -> Result<Bytes, ApiError> {
    const MAX_LEN: usize = 64 * 1024;
    // With a Content-Length, the lower bound is known before a byte has been read.
    if body.size_hint().lower() > MAX_LEN as u64 {
        return Err(ApiError::BodyTooLarge);
    }
    match timeout(Duration::from_secs(5), copied(Limited::new(body, MAX_LEN))).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge),
        Ok(Err(error)) => {
            tracing::debug!(error = &*error as &dyn Error, "could not read a body");
            Err(ApiError::BrokenBody)
        }
        Err(_) => Err(ApiError::RequestTimeout),
    }
}

/// Returns a copy of all frames. A frame keeps the buffer of 8 KiB that hyper read it into, even if it is one
/// byte: `collect` would keep all of them.
async fn copied(mut body: Limited<Body>) -> Result<Bytes, axum::BoxError> {
    let mut copy = Vec::new();
    while let Some(frame) = body.frame().await {
        copy.extend_from_slice(frame?.data_ref().map_or(&[], |data| data));
    }
    Ok(copy.into())
}

/// Refuses transfer codings other than `chunked` (RFC 9112 §6.1). hyper looks only at the last one, and would
/// pass on the body in the others.
pub(crate) fn check_transfer_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let coding = only_field(headers, header::TRANSFER_ENCODING);
    let is_known = coding.is_ok_and(|coding| coding.is_none_or(is_chunked));
    if is_known { Ok(()) } else { Err(ApiError::UnsupportedTransferCoding) }
}

/// Refuses a body that is declared as anything but JSON in UTF-8 without a content coding. If nothing is
/// declared, that is assumed: RFC 8259 §8.1 knows no other encoding, and RFC 9110 §8.3 allows it.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_json = |media_type: &HeaderValue| media_type.to_str().is_ok_and(is_json_type);
    if !only_field(headers, header::CONTENT_TYPE).is_ok_and(|it| it.is_none_or(is_json)) {
        return Err(ApiError::UnsupportedMediaType);
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(ApiError::UnsupportedContentCoding);
    }
    Ok(())
}

/// Returns `true` for `application/json`, whose parameters have no meaning (RFC 8259 §11) unless they
/// contradict UTF-8. A value that is not of the form of RFC 9110 §8.3.1 is refused, because it may mean
/// another charset.
fn is_json_type(media_type: &str) -> bool {
    let (essence, mut rest) = media_type.split_at(media_type.find(';').unwrap_or(media_type.len()));
    if !trimmed(essence).eq_ignore_ascii_case("application/json") {
        return false;
    }
    while let Some(parameter) = rest.strip_prefix(';') {
        let parameter = parameter.trim_start_matches(WHITESPACE);
        let Some((name, value, after)) = split_parameter(parameter) else { return false };
        if name.eq_ignore_ascii_case("charset") && !value.eq_ignore_ascii_case("utf-8") {
            return false;
        }
        rest = after.trim_start_matches(WHITESPACE);
    }
    rest.is_empty()
}

/// Optional whitespace of HTTP.
const WHITESPACE: [char; 2] = [' ', '\t'];

fn trimmed(text: &str) -> &str {
    text.trim_matches(WHITESPACE)
}

/// Returns the name and value of the parameter that the text begins with, which may be empty, and the
/// remaining text. A quoted value keeps its `\`, because no known charset has one.
fn split_parameter(text: &str) -> Option<(&str, &str, &str)> {
    if text.is_empty() || text.starts_with(';') {
        return Some(("", "", text));
    }
    let (name, value) = text.split_once('=')?;
    let (value, after) = match value.strip_prefix('"') {
        Some(quoted) => quoted.split_at(end_of_quoted(quoted)?),
        None => value.split_at(value.find([';', ' ', '\t']).unwrap_or(value.len())),
    };
    let (is_quoted, after) = after.strip_prefix('"').map_or((false, after), |after| (true, after));
    (is_token(name) && (is_quoted || is_token(value))).then_some((name, value, after))
}

/// Returns the position of the closing quotation mark.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Returns `true` for a token of RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[tokio::test]
    async fn a_body_keeps_no_buffer_that_its_frames_were_read_into() {
        let buffer = Bytes::from(vec![b'x'; 8_192]);
        let frames = [buffer.slice(..1), buffer.slice(1..2)].map(Ok::<_, std::io::Error>);
        let body = read(Body::from_stream(stream::iter(frames))).await.unwrap();
        assert_eq!(body, "xx");
        assert!(buffer.is_unique());
    }

    fn declared(fields: &[(HeaderName, &'static str)]) -> Result<(), ApiError> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        check_type(&headers)
    }

    #[test]
    fn json_in_utf_8_may_be_declared_in_any_case_or_not_at_all() {
        declared(&[]).unwrap();
        let types = [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/json; Charset=\"utf-8\"",
            "application/json;",
            "application/json; profile=x",
            "application/json ; charset=utf-8 ; profile=x ",
            "application/json;;charset=utf-8;",
            "application/json; profile=\"a;charset=utf-16\\\"\"; charset=utf-8",
        ];
        for media_type in types {
            assert_eq!(declared(&[(header::CONTENT_TYPE, media_type)]), Ok(()), "{media_type}");
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
            "application/json;charset = utf-16",
            "application/json; charset =utf-8",
            "application/json; charset= utf-8",
            "application/json; charset=",
            "application/json; charset=\"utf-8",
            "application/json; charset=\"utf-16\"",
            "application/json; charset=utf-8 x",
            "application/json; charset",
            "application/json; =utf-8",
            "application/json; profile=\"a\\\"; charset=utf-16\"b",
        ];
        for media_type in types {
            let refused = declared(&[(header::CONTENT_TYPE, media_type)]);
            assert_eq!(refused, Err(ApiError::UnsupportedMediaType), "{media_type}");
        }
        let json = (header::CONTENT_TYPE, "application/json");
        let coded = declared(&[json.clone(), (header::CONTENT_ENCODING, "gzip")]);
        assert_eq!(coded, Err(ApiError::UnsupportedContentCoding));
        assert_eq!(declared(&[json.clone(), json]), Err(ApiError::UnsupportedMediaType));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_refused() {
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("reset"))]);
        assert_eq!(read(Body::from_stream(broken)).await, Err(ApiError::BrokenBody));
    }

    #[tokio::test]
    async fn the_largest_body_is_64_kib_with_or_without_a_length() {
        let chunks = |count| {
            let chunk = Bytes::from(vec![b' '; 1_024]);
            Body::from_stream(stream::iter((0..count).map(move |_| std::io::Result::Ok(chunk.clone()))))
        };
        assert_eq!(read(Body::from(vec![b' '; 65_536])).await.unwrap().len(), 65_536);
        assert_eq!(read(Body::from(vec![b' '; 65_537])).await, Err(ApiError::BodyTooLarge));
        assert_eq!(read(chunks(64)).await.unwrap().len(), 65_536);
        assert_eq!(read(chunks(65)).await, Err(ApiError::BodyTooLarge));
    }
}
