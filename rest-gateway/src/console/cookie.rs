//! The cookie that holds the token of a session.

use std::time::Duration;

use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, HOST, ORIGIN},
};
use petstore_api_key::SessionToken;

/// The cookie of one console, for one browser.
#[derive(Debug)]
pub(super) struct SessionCookie {
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// The cookie for requests like this one. Cookies belong to a host whatever its port, so the port is in
    /// the name: two services on one machine have a session each. Whether the browser came over HTTPS is what
    /// it says in Origin: the admin port itself speaks plain HTTP, behind a proxy that may not.
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        let port = text(HOST).rsplit_once(':').map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        Self { name: format!("petstore-console{port}"), is_secure: text(ORIGIN).starts_with("https://") }
    }

    /// The token in the cookie that the browser sends; none if it sends two, or what cannot be a token.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<SessionToken> {
        let mut named = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|pairs| pairs.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.name);
        match (named.next(), named.next()) {
            (Some((_, token)), None) => SessionToken::parse(token),
            _ => None,
        }
    }

    /// The value of `Set-Cookie` that gives the browser a session.
    pub(super) fn set(&self, token: &SessionToken, ttl: Duration) -> HeaderValue {
        self.field(token.expose(), ttl)
    }

    /// The value of `Set-Cookie` that takes it away.
    pub(super) fn clear(&self) -> HeaderValue {
        self.field("", Duration::ZERO)
    }

    fn field(&self, value: &str, age: Duration) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let field = format!(
            "{name}={value}; Path=/console; Max-Age={age}; HttpOnly; SameSite=Strict{secure}",
            name = self.name,
            age = age.as_secs(),
        );
        // Letters, digits and punctuation are always a field value.
        let mut field = HeaderValue::try_from(field).unwrap_or_else(|_| HeaderValue::from_static(""));
        field.set_sensitive(true);
        field
    }
}
