//! Failures of Redis.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::FutureExt;
use redis::{ErrorKind, RedisError};
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};

/// Cause of a missing decision, for an operator's log. It never holds text from Redis: an error of Redis may
/// repeat what it was sent, and so a password.
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
    /// `READONLY`: the server is a replica.
    #[error("Redis is a read-only replica")]
    ReadOnly,
    /// `OOM`: `maxmemory` is reached, and nothing may be evicted.
    #[error("Redis has no memory left")]
    OutOfMemory,
    /// `LOADING`, `BUSY`, `MASTERDOWN`, `MISCONF`: the server accepts no writes for now.
    #[error("Redis accepts no writes at the moment")]
    NotServing,
    /// `WRONGTYPE`: another program wrote under the caller's key.
    #[error("the Redis key holds something other than a record of the rate limiter")]
    WrongType,
    /// `MOVED`, `CLUSTERDOWN` and the like: one URL that leads to a Redis Cluster, or a Cluster that is not
    /// complete.
    #[error("the Redis Cluster is incomplete, or more of its nodes must be named")]
    Cluster,
    /// The server does not speak Redis's protocol, or its reply does not match the request.
    #[error("the server is not Redis, or speaks an unsupported version of its protocol")]
    Protocol,
    /// `TRYAGAIN`, `ASK`: the slot is moving to another node of the Cluster, and the node that was asked
    /// lacks a key of the call. The call had no effect.
    #[error("a slot of the Redis Cluster is moving to another node")]
    SlotMoving,
    /// `NOSCRIPT`: the server does not know the script, and did nothing. The script is then sent.
    #[error("Redis does not know the script")]
    NoScript,
    /// The server refused for another reason.
    #[error("Redis refused the call")]
    Refused,
}

impl RedisCallError {
    /// Returns the cause for the first word of an error of Redis.
    pub(super) fn from_code(code: &str) -> Self {
        match code {
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Denied,
            "READONLY" => Self::ReadOnly,
            "OOM" => Self::OutOfMemory,
            "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" => Self::NotServing,
            "TRYAGAIN" | "ASK" => Self::SlotMoving,
            "WRONGTYPE" => Self::WrongType,
            "NOSCRIPT" => Self::NoScript,
            "MOVED" | "CROSSSLOT" | "CLUSTERDOWN" => Self::Cluster,
            _ => Self::Refused,
        }
    }

    /// Returns `true` if the connection may be used again. A refusal leaves it usable. After anything else,
    /// it is unknown what may still arrive on it. The connection to a replica is dropped in favour of the
    /// server that is now the primary.
    pub(super) fn leaves_connection_usable(self) -> bool {
        match self {
            Self::OutOfMemory
            | Self::NotServing
            | Self::WrongType
            | Self::SlotMoving
            | Self::NoScript
            | Self::Refused => true,
            Self::Unreachable
            | Self::TimedOut
            | Self::Denied
            | Self::ReadOnly
            | Self::Cluster
            | Self::Protocol => false,
        }
    }
}

/// Returns the result of the work, or [`RedisCallError::TimedOut`] after the deadline. An answer that this
/// process has received by then, but is too busy to process, is not late: all other tasks run some times
/// before the work is given up, which takes longer only while they have much to do.
pub(super) async fn in_time<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, RedisCallError>>,
) -> Result<T, RedisCallError> {
    /// Number of times that all other tasks run: an answer passes through a few of them.
    const TURNS: usize = 32;
    /// Time for that, in deadlines from the start.
    const LAST: u32 = 5;
    let (begun, mut work) = (Instant::now(), pin!(work));
    if let Ok(result) = timeout(deadline, &mut work).await {
        return result;
    }
    for _ in 0..TURNS {
        yield_now().await;
        if let Some(result) = (&mut work).now_or_never() {
            return result;
        }
        if begun.elapsed() > deadline * LAST {
            break;
        }
    }
    Err(RedisCallError::TimedOut)
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
            _ => error.code().map_or(Self::Refused, Self::from_code), // the enum is non-exhaustive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_redis_is_classified_by_its_first_word() {
        for (codes, error) in [
            (["NOAUTH", "WRONGPASS", "NOPERM"].as_slice(), RedisCallError::Denied),
            (&["LOADING", "MISCONF", "BUSY", "MASTERDOWN", "NOREPLICAS"], RedisCallError::NotServing),
            (&["READONLY"], RedisCallError::ReadOnly),
            (&["TRYAGAIN", "ASK"], RedisCallError::SlotMoving),
            (&["OOM"], RedisCallError::OutOfMemory),
            (&["WRONGTYPE"], RedisCallError::WrongType),
            (&["MOVED", "CROSSSLOT", "CLUSTERDOWN"], RedisCallError::Cluster),
            (&["ERR", "", "whatever"], RedisCallError::Refused),
        ] {
            assert!(codes.iter().all(|code| RedisCallError::from_code(code) == error), "{error:?}");
        }
    }

    #[test]
    fn an_error_of_the_connection_is_classified_by_its_kind() {
        for (kind, error) in [
            (ErrorKind::Io, RedisCallError::Unreachable),
            (ErrorKind::AuthenticationFailed, RedisCallError::Denied),
            (ErrorKind::Parse, RedisCallError::Protocol),
            (ErrorKind::ClusterConnectionNotFound, RedisCallError::Cluster),
            (ErrorKind::InvalidClientConfig, RedisCallError::Refused),
        ] {
            assert_eq!(RedisCallError::from(RedisError::from((kind, ""))), error);
        }
    }
}
