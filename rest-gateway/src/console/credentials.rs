//! What the console shows the admin API for an operator.

use std::fmt;

use http::HeaderValue;
use petstore_api_key::SessionToken;

/// The value of `Authorization`. It is kept as long as its request, and never shown.
#[derive(Clone)]
pub(super) struct Credentials(HeaderValue);

impl Credentials {
    /// Those of an operator's token as it was typed, if it has the form of one. Whether it is valid, the core
    /// knows.
    pub(super) fn typed(typed: &str) -> Option<Self> {
        let typed = typed.trim();
        let rest = typed.strip_prefix("pet_op_")?;
        if rest.is_empty() || rest.len() > 128 || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        Self::bearer(typed)
    }

    /// Those of a session.
    pub(super) fn session(token: &SessionToken) -> Option<Self> {
        Self::bearer(token.expose())
    }

    fn bearer(token: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    /// The value of `Authorization`.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}
