//! Who is signed in: sessions in the memory of this gateway, and the cookie that names one.
//!
//! A restart ends them all, and another gateway does not know them: the operator signs in again. In return no
//! store holds anything that a thief could use.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, HOST, ORIGIN},
};
use petstore_clock::{Clock, UnixMillis};

use super::tokens::OperatorToken;

/// A session ends so long after the sign-in, used or not.
const LIFETIME: Duration = Duration::from_hours(8);

/// More sessions than operators would ever open; the oldest then make room.
const MAX_SESSIONS: usize = 1_000;

/// Names a session: 256 random bits in hexadecimal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SessionId(String);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId")
    }
}

/// The sessions that are open. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    open: Arc<Mutex<HashMap<SessionId, Session>>>,
    clock: Clock,
}

#[derive(Debug)]
struct Session {
    token: OperatorToken,
    ends: UnixMillis,
}

impl Sessions {
    pub(super) fn new(clock: Clock) -> Self {
        Self { open: Arc::default(), clock }
    }

    /// Opens a session under an identifier that nobody knows yet.
    pub(super) fn open(&self, token: OperatorToken) -> SessionId {
        // From a CSPRNG that the operating system seeds.
        let half = || format!("{:032x}", rand::random::<u128>());
        let id = SessionId(half() + &half());
        let now = self.clock.now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| session.ends > now);
        while open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, session)| session.ends).map(|(id, _)| id.clone());
            oldest.map(|id| open.remove(&id));
        }
        open.insert(id.clone(), Session { token, ends: now.plus(LIFETIME) });
        id
    }

    /// The token of a session; none if there is no such session, or no longer.
    pub(super) fn token(&self, id: &SessionId) -> Option<OperatorToken> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).filter(|session| session.ends > self.clock.now()).map(|session| session.token.clone())
    }

    pub(super) fn end(&self, id: &SessionId) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// The cookie of one console, for one browser.
#[derive(Debug)]
pub(super) struct SessionCookie {
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// The cookie for requests like this one. Cookies belong to a host whatever its port, so the port is in
    /// the name: two gateways on one machine have a session each. Whether the browser came over HTTPS is what
    /// it says in Origin: the admin port itself speaks plain HTTP, behind a proxy that may not.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        let port = text(HOST).rsplit_once(':').map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        Self { name: format!("petstore-console{port}"), is_secure: text(ORIGIN).starts_with("https://") }
    }

    /// The session that the browser names; none if it names two.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<SessionId> {
        let mut named = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|pairs| pairs.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.name);
        match (named.next(), named.next()) {
            (Some((_, id)), None) => Some(SessionId(id.to_owned())),
            _ => None,
        }
    }

    /// The value of `Set-Cookie` that gives the browser a session.
    pub(super) fn set(&self, id: &SessionId) -> HeaderValue {
        self.field(&id.0, LIFETIME)
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
