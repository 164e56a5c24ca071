//! What becomes of requests while Redis is unreachable.

use std::{fmt, str::FromStr};

/// What becomes of requests while Redis is unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRedisFailure {
    /// Each gateway limits by itself, to its share of the limits.
    #[default]
    Local,
    /// All are admitted, whatever the plan says.
    Open,
    /// All are refused: 503 `LIMITER_UNAVAILABLE`.
    Closed,
}

/// The text names no such policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be local, open or closed")]
pub struct InvalidOnRedisFailure;

/// `local`, `open` or `closed`.
impl fmt::Display for OnRedisFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        })
    }
}

impl FromStr for OnRedisFailure {
    type Err = InvalidOnRedisFailure;

    fn from_str(written: &str) -> Result<Self, InvalidOnRedisFailure> {
        [Self::Local, Self::Open, Self::Closed]
            .into_iter()
            .find(|policy| policy.to_string() == written)
            .ok_or(InvalidOnRedisFailure)
    }
}
