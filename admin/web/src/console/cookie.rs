//! Cookies that hold the token of a session.

use std::time::Duration;

use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, HOST, ORIGIN},
};
use petstore_caller::api_key::OperatorToken;

/// Path of the cookie of 1.0.0.
const PATH: &str = "/console";

/// Prefix of the name of a cookie that a browser accepts only over HTTPS and only from the host itself, for
/// all its paths (RFC 6265bis §4.1.3.2): neither another host of the domain nor plain HTTP can plant it.
const HOST_PREFIX: &str = "__Host-";

/// Maximum number of different sessions that are looked at. A browser has one, or two after a sign-in.
pub(super) const MAX_SESSIONS: usize = 8;

/// Maximum number of paths for which a planted cookie is removed. The console's own paths have fewer.
const MAX_PATHS: usize = 16;

/// Cookies of one console, for one browser.
#[derive(Debug)]
pub(super) struct SessionCookie {
    /// Name of the cookie of 1.0.0, which any page of the host can plant.
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// Returns the cookies for requests like this one. Cookies belong to a host regardless of its port, so
    /// the port is in the name: two services on one machine have separate sessions. Origin shows if the
    /// browser uses HTTPS, of the admin port or of a proxy before its plain one. Browsers send it with every
    /// sign-in, and no page can change it.
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        let port = text(HOST).rsplit_once(':').map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        Self { name: format!("petstore-console{port}"), is_secure: text(ORIGIN).starts_with("https://") }
    }

    fn host_name(&self) -> String {
        format!("{HOST_PREFIX}{}", self.name)
    }

    /// Returns the sessions that a request may act with, each once and at most one more than
    /// [`MAX_SESSIONS`]. A browser sends several cookies of one name if their paths differ. Those of 1.0.0
    /// count only without one that cannot be planted.
    pub(super) fn read(&self, headers: &HeaderMap) -> Vec<OperatorToken> {
        let of_host = sessions(values(headers, &self.host_name()));
        if of_host.is_empty() { sessions(values(headers, &self.name)) } else { of_host }
    }

    /// Returns all sessions in the cookies of a request, as far as they are looked at.
    pub(super) fn read_all(&self, headers: &HeaderMap) -> Vec<OperatorToken> {
        sessions(values(headers, &self.host_name()).chain(values(headers, &self.name)))
    }

    /// Returns the values of `Set-Cookie` that give the browser a session. Gateways of 1.0.0 beside this one
    /// know only the cookie without the prefix.
    pub(super) fn set(&self, token: &OperatorToken, ttl: Duration) -> Vec<HeaderValue> {
        let of_host = self.is_secure.then(|| field(&self.host_name(), token.expose(), "/", ttl, true));
        let plain = field(&self.name, token.expose(), PATH, ttl, self.is_secure);
        of_host.into_iter().chain([plain]).collect()
    }

    /// Returns the values of `Set-Cookie` that remove the cookies which a request to this path has: those of
    /// this console, and those of every path above that one if there are several.
    pub(super) fn clear(&self, headers: &HeaderMap, path: &str) -> Vec<HeaderValue> {
        let host_name = self.host_name();
        let of_host = values(headers, &host_name).next();
        let of_host = of_host.map(|_| field(&host_name, "", "/", Duration::ZERO, true));
        let has_several = values(headers, &self.name).nth(1).is_some();
        // A browser keeps cookies of `/a` and of `/a/` apart.
        let above = path.match_indices('/').flat_map(|(at, _)| [&path[..at], &path[..=at]]).chain([path]);
        let is_of_cookie = |path: &&str| !path.is_empty() && !path.contains(';') && *path != PATH;
        let above = above.filter(|path| has_several && is_of_cookie(path));
        let paths = [PATH].into_iter().chain(above.take(MAX_PATHS));
        let plain = paths.map(|path| field(&self.name, "", path, Duration::ZERO, self.is_secure));
        of_host.into_iter().chain(plain).collect()
    }
}

/// Returns the values of all cookies of this name.
fn values<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|pairs| pairs.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(move |(each, _)| *each == name)
        .map(|(_, value)| value)
}

/// Returns the different tokens of sessions among the values, at most one more than [`MAX_SESSIONS`].
fn sessions<'a>(values: impl Iterator<Item = &'a str>) -> Vec<OperatorToken> {
    let mut sessions: Vec<OperatorToken> = Vec::new();
    for token in values.filter_map(OperatorToken::parse).filter(OperatorToken::is_session) {
        if sessions.iter().all(|session| session.expose() != token.expose()) {
            sessions.push(token);
        }
        if sessions.len() > MAX_SESSIONS {
            break;
        }
    }
    sessions
}

fn field(name: &str, value: &str, path: &str, age: Duration, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let age = age.as_secs();
    let field = format!("{name}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    // Letters, digits and punctuation are always a field value.
    let mut field = HeaderValue::try_from(field).unwrap_or_else(|_| HeaderValue::from_static(""));
    field.set_sensitive(true);
    field
}
