//! How far clients may rely on an operation, and the header field that says so.

use http::{HeaderMap, HeaderName, HeaderValue};

const X_STABILITY: HeaderName = HeaderName::from_static("x-stability");

/// How far clients may rely on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// Changes are additions only.
    Stable,
    /// It is meant to stay, but may still change in ways that are no addition.
    Beta,
    /// It may change or go away at any time.
    Experimental,
}

impl Stability {
    /// As the header field and OpenAPI's `x-stability` say it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Beta => "beta",
            Self::Experimental => "experimental",
        }
    }

    /// Writes the header field of an operation that is not stable.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        if self != Self::Stable {
            headers.insert(X_STABILITY, HeaderValue::from_static(self.word()));
        }
    }
}
