//! Answers of the service, and rules for every answer.

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

/// Complete response.
#[derive(Clone)]
pub struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

/// The three `X-RateLimit` fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `X-RateLimit-Limit`.
    pub limit: u64,
    /// `X-RateLimit-Remaining`.
    pub remaining: u64,
    /// `X-RateLimit-Reset`: Unix time in seconds.
    pub reset: u64,
}

impl Answer {
    pub(crate) fn new(status: u16, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, body }
    }

    #[cfg(test)]
    pub(crate) fn remove_header(&mut self, name: &str) {
        self.headers.remove(name);
    }

    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns every header field.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the body's bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|_| panic!("the body is not UTF-8: {self:?}"))
    }

    /// Returns the body as JSON. Integers stay exact.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// Returns every value of a field, in order.
    #[track_caller]
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap_or_else(|_| panic!("{name} is not ASCII: {self:?}")))
            .collect()
    }

    /// Returns the value of a field that may be there once.
    #[track_caller]
    pub fn find(&self, name: &str) -> Option<&str> {
        let values = self.values(name);
        assert!(values.len() <= 1, "{name} is there {} times: {self:?}", values.len());
        values.first().copied()
    }

    /// Returns the value of a field that is there exactly once.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.find(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    /// Returns the value of a field that is there exactly once and is a canonical decimal number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let text = self.header(name);
        let number = text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {self:?}"));
        assert_eq!(u64::to_string(&number), text, "{name} is not canonical: {self:?}");
        number
    }

    /// Returns the three `X-RateLimit` fields, each there exactly once.
    #[track_caller]
    pub fn rate(&self) -> Rate {
        Rate {
            limit: self.number("x-ratelimit-limit"),
            remaining: self.number("x-ratelimit-remaining"),
            reset: self.number("x-ratelimit-reset"),
        }
    }

    /// Returns `Retry-After`, in seconds.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        self.number("retry-after")
    }

    /// Returns the `message` of an Error body.
    #[track_caller]
    pub fn message(&self) -> String {
        let body = self.json();
        body["message"].as_str().unwrap_or_else(|| panic!("no message: {self:?}")).to_owned()
    }

    /// Checks the status, and returns the answer.
    #[track_caller]
    pub fn assert_status(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Checks that this is the Error of a path outside `/v1`: the status and exactly `code`, `message` and
    /// `status`, as `application/json`.
    #[track_caller]
    pub fn assert_error_body(&self, status: u16, code: &str) -> &Self {
        self.assert_status(status);
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        let message = self.message();
        assert_eq!(self.json(), json!({"code": code, "message": message, "status": status}), "{self:?}");
        assert_ne!(message.trim(), "", "the message says nothing: {self:?}");
        self
    }

    /// Checks that this is the Error of a path under `/v1`: also with the three rate limit fields.
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) -> &Self {
        self.assert_error_body(status, code);
        let _ = self.rate();
        self
    }
}

/// Writes the answer as on the wire, so that a failed assertion shows everything.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HTTP {}", self.status)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
        }
        write!(f, "\n{}", String::from_utf8_lossy(&self.body))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn answer(fields: &[(&'static str, &'static str)], body: &'static str) -> Answer {
        let fields = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        fields.for_each(|(name, value)| {
            headers.append(name, value);
        });
        Answer::new(404, headers, Bytes::from_static(body.as_bytes()))
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const BODY: &str = r#"{"code":"X","message":"why","status":404}"#;

    #[test]
    fn an_error_has_exactly_three_members() {
        answer(&[JSON], BODY).assert_error_body(404, "X");
        let fourth = answer(&[JSON], r#"{"code":"X","message":"why","status":404,"id":1}"#);
        assert!(std::panic::catch_unwind(|| fourth.assert_error_body(404, "X").status()).is_err());
    }

    #[test]
    #[should_panic(expected = "x-ratelimit-limit is there 2 times")]
    fn a_rate_limit_field_that_is_there_twice_is_a_fault() {
        answer(&[JSON, ("x-ratelimit-limit", "1"), ("x-ratelimit-limit", "1")], BODY).assert_error(404, "X");
    }

    #[test]
    #[should_panic(expected = "x-ratelimit-limit is not canonical")]
    fn a_number_with_a_sign_is_not_canonical() {
        let _ = answer(&[("x-ratelimit-limit", "+1")], "").number("x-ratelimit-limit");
    }
}
