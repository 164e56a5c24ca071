//! How far clients may rely on an operation. Whatever is not named here is stable.

use http::{HeaderName, HeaderValue};

use crate::routes::usage;

/// Tells on every answer of an operation that it is not stable yet.
pub(crate) const X_STABILITY: HeaderName = HeaderName::from_static("x-stability");

/// How far clients may rely on an operation that is not stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// It may change or go away at any time.
    Experimental,
    /// It is meant to stay, but may still change in ways that are no addition.
    Beta,
}

impl Stability {
    /// As the header field and OpenAPI's `x-stability` say it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Experimental => "experimental",
            Self::Beta => "beta",
        }
    }

    /// The value of [`X_STABILITY`].
    pub(crate) const fn as_header(self) -> HeaderValue {
        HeaderValue::from_static(self.word())
    }
}

/// What holds for a path; `None` if it is stable, or not there. Judged on the path alone, so that every answer on it
/// says so, whatever its method and status.
pub(crate) fn of(path: &str) -> Option<Stability> {
    match path {
        "/v1/store/orders" => Some(Stability::Experimental),
        usage::PATH => Some(Stability::Beta),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_experimental_usage_is_in_beta_and_animals_are_stable() {
        assert_eq!(of("/v1/usage").map(Stability::word), Some("beta"));
        assert_eq!(of("/v1/store/orders").map(Stability::word), Some("experimental"));
        for path in ["/v1/pets", "/v1/pets/1", "/v1/store/orders/", "/v1/store"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
