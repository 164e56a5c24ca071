//! Failures of Redis.

use redis::{ErrorKind, RedisError};

/// The cause of a missing decision, for an operator's log. It never holds what Redis wrote: an error of Redis
/// may repeat what it was sent, and so a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisCallError {
    /// The connection could not be made, or broke.
    #[error("Redis cannot be reached")]
    Unreachable,
    /// No answer came in time.
    #[error("Redis does not answer in time")]
    TimedOut,
    /// User and password are wrong, missing, or not allowed to do this.
    #[error("Redis refuses the user or password")]
    Denied,
    /// `READONLY`: it is a replica.
    #[error("Redis is a read-only replica")]
    ReadOnly,
    /// `OOM`: `maxmemory` is reached, and nothing may be evicted.
    #[error("Redis has no memory left")]
    OutOfMemory,
    /// `LOADING`, `BUSY`, `MASTERDOWN`, `MISCONF`: it serves no writes for now.
    #[error("Redis serves no writes for now")]
    NotServing,
    /// `WRONGTYPE`: another program wrote under the caller's key.
    #[error("under the key is something else than a record of the rate limiter")]
    WrongType,
    /// `MOVED`, `CLUSTERDOWN` and the like: one URL that leads to a Redis Cluster, or a Cluster that is not
    /// whole.
    #[error("Redis is a cluster that is not whole, or of which several nodes must be named")]
    Cluster,
    /// It does not speak Redis's protocol, or sent what is no answer to a request.
    #[error("what answers is not Redis, or not one that this program understands")]
    Protocol,
    /// It refused for another reason.
    #[error("Redis refused the call")]
    Refused,
}

impl RedisCallError {
    /// Returns the cause by the first word of an error of Redis.
    pub(super) fn from_code(code: &str) -> Self {
        match code {
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Denied,
            "READONLY" => Self::ReadOnly,
            "OOM" => Self::OutOfMemory,
            "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "TRYAGAIN" => Self::NotServing,
            "WRONGTYPE" => Self::WrongType,
            "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => Self::Cluster,
            _ => Self::Refused,
        }
    }

    /// Returns `true` if the connection may be used again. A refusal leaves it in order; after anything else
    /// it is unknown what is still to come on it. A replica is left for the server that is the primary by
    /// now.
    pub(super) fn leaves_connection_usable(self) -> bool {
        match self {
            Self::OutOfMemory | Self::NotServing | Self::WrongType | Self::Refused => true,
            Self::Unreachable
            | Self::TimedOut
            | Self::Denied
            | Self::ReadOnly
            | Self::Cluster
            | Self::Protocol => false,
        }
    }
}

impl From<RedisError> for RedisCallError {
    fn from(error: RedisError) -> Self {
        if error.is_timeout() {
            return Self::TimedOut;
        }
        match error.kind() {
            ErrorKind::Io => Self::Unreachable,
            ErrorKind::AuthenticationFailed => Self::Denied,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType | ErrorKind::RESP3NotSupported => {
                Self::Protocol
            }
            ErrorKind::ClusterConnectionNotFound => Self::Cluster,
            _ => error.code().map_or(Self::Refused, Self::from_code), // the enum is open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_first_word() {
        for (codes, error) in [
            (["NOAUTH", "WRONGPASS", "NOPERM"].as_slice(), RedisCallError::Denied),
            (&["LOADING", "MISCONF", "BUSY", "MASTERDOWN", "NOREPLICAS"], RedisCallError::NotServing),
            (&["READONLY"], RedisCallError::ReadOnly),
            (&["OOM"], RedisCallError::OutOfMemory),
            (&["WRONGTYPE"], RedisCallError::WrongType),
            (&["MOVED", "CROSSSLOT", "CLUSTERDOWN"], RedisCallError::Cluster),
            (&["ERR", "", "whatever"], RedisCallError::Refused),
        ] {
            assert!(codes.iter().all(|code| RedisCallError::from_code(code) == error), "{error:?}");
        }
    }
}
