//! The token of an operator, as the console holds it.

use std::fmt;

use http::HeaderValue;

/// Kept in memory only, and never shown.
#[derive(Clone)]
pub(super) struct OperatorToken(HeaderValue);

impl OperatorToken {
    /// What was typed, if it has the form of an operator's token. Whether it is valid, the core knows.
    pub(super) fn new(typed: &str) -> Option<Self> {
        let typed = typed.trim();
        let rest = typed.strip_prefix("pet_op_")?;
        if rest.is_empty() || rest.len() > 128 || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let mut credentials = HeaderValue::try_from(format!("Bearer {typed}")).ok()?;
        credentials.set_sensitive(true);
        Some(Self(credentials))
    }

    /// The value of `Authorization`.
    pub(super) fn credentials(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken")
    }
}
