//! Cookie that holds the token of a session.

use std::time::Duration;

use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, HOST, ORIGIN},
};
use petstore_api_key::OperatorToken;

/// Path of the cookie.
const PATH: &str = "/console";

/// Cookie of one console, for one browser.
#[derive(Debug)]
pub(super) struct SessionCookie {
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// Returns the cookie for requests like this one. Cookies belong to a host regardless of its port, so the
    /// port is in the name: two services on one machine have separate sessions. Origin shows if the browser
    /// uses HTTPS, because the admin port itself speaks plain HTTP, behind a proxy that may not.
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        let port = text(HOST).rsplit_once(':').map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        Self { name: format!("petstore-console{port}"), is_secure: text(ORIGIN).starts_with("https://") }
    }

    /// Returns up to four tokens in the cookies of this name, the newest first. A browser may send more than
    /// one: each path has a separate cookie, and the older one comes first (RFC 6265 §5.4).
    pub(super) fn read(&self, headers: &HeaderMap) -> Vec<OperatorToken> {
        let mut tokens: Vec<_> =
            self.values(headers).filter_map(OperatorToken::parse).filter(OperatorToken::is_session).collect();
        tokens.reverse();
        tokens.truncate(4);
        tokens
    }

    fn values<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|pairs| pairs.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.name)
            .map(|(_, value)| value)
    }

    /// Returns the value of `Set-Cookie` that gives the browser a session.
    pub(super) fn set(&self, token: &OperatorToken, ttl: Duration) -> HeaderValue {
        self.field(token.expose(), PATH, ttl)
    }

    /// Returns the values of `Set-Cookie` that remove the cookies which a request has: the one of this
    /// console, and one for the whole host if there are several.
    pub(super) fn clear(&self, headers: &HeaderMap) -> Vec<HeaderValue> {
        let paths = if self.values(headers).nth(1).is_some() { &[PATH, "/"][..] } else { &[PATH] };
        paths.iter().map(|path| self.field("", path, Duration::ZERO)).collect()
    }

    fn field(&self, value: &str, path: &str, age: Duration) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let field = format!(
            "{name}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}",
            name = self.name,
            age = age.as_secs(),
        );
        // Letters, digits and punctuation are always a field value.
        let mut field = HeaderValue::try_from(field).unwrap_or_else(|_| HeaderValue::from_static(""));
        field.set_sensitive(true);
        field
    }
}
