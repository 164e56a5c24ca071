//! Failures of Redis.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use redis::{ErrorKind, RedisError};
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};

/// Cause of a missing decision, for an operator's log. A refusal has Redis's own words, without what they
/// repeat of the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisCallError {
    /// The connection could not be made, or broke.
    #[error("Redis cannot be reached: {0}")]
    Unreachable(Arc<str>),
    /// No answer came in time.
    #[error("Redis does not answer in time")]
    TimedOut,
    /// User and password are wrong or missing.
    #[error("Redis refuses the user or password")]
    Denied,
    /// `NOPERM`: the user may not run a command of the limiter, or use its keys.
    #[error("the user of Redis lacks a right that rate limits need: {0}")]
    NotPermitted(Arc<str>),
    /// `READONLY`: the server is a replica.
    #[error("Redis is a read-only replica: {0}")]
    ReadOnly(Arc<str>),
    /// `OOM`: `maxmemory` is reached, and nothing may be evicted.
    #[error("Redis has no memory left: {0}")]
    OutOfMemory(Arc<str>),
    /// `LOADING`, `BUSY`, `MASTERDOWN`, `MISCONF`: the server accepts no writes for now.
    #[error("Redis accepts no writes at the moment: {0}")]
    NotServing(Arc<str>),
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
    #[error("Redis refuses: {0}")]
    Refused(Arc<str>),
}

impl RedisCallError {
    /// Returns the cause for an error of Redis, whose first word is a code.
    pub(super) fn from_answer(error: &str) -> Self {
        let in_script = error.contains("The user executing the script can't run");
        match error.split(' ').next().unwrap_or_default() {
            "NOAUTH" | "WRONGPASS" => Self::Denied,
            "NOPERM" => Self::NotPermitted(words(error)),
            "ERR" if in_script => Self::NotPermitted(words(error)),
            "READONLY" => Self::ReadOnly(words(error)),
            "OOM" => Self::OutOfMemory(words(error)),
            "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" => Self::NotServing(words(error)),
            "TRYAGAIN" | "ASK" => Self::SlotMoving,
            "WRONGTYPE" => Self::WrongType,
            "NOSCRIPT" => Self::NoScript,
            "MOVED" | "CROSSSLOT" | "CLUSTERDOWN" => Self::Cluster,
            _ => Self::Refused(words(error)),
        }
    }

    /// Returns `true` if Redis can be reached, but refuses to decide.
    pub(crate) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Unreachable(_) | Self::TimedOut | Self::Protocol | Self::Cluster)
    }

    /// Returns `true` if the connection may be used again. A refusal leaves it usable. After anything else,
    /// it is unknown what may still arrive on it. The connection to a replica is dropped in favour of the
    /// server that is now the primary, and so is one of a user who lacks a right that may now be granted.
    pub(super) fn leaves_connection_usable(&self) -> bool {
        matches!(
            self,
            Self::OutOfMemory(_)
                | Self::NotServing(_)
                | Self::WrongType
                | Self::SlotMoving
                | Self::NoScript
                | Self::Refused(_)
        )
    }
}

/// Returns the words of an error of Redis for a log: at most 200 characters of one line, and nothing that the
/// call contained, such as a password. An unknown command is followed by its arguments.
fn words(error: &str) -> Arc<str> {
    let own = error.split(", with args").next().unwrap_or_default();
    own.chars().filter(|character| !character.is_control()).take(200).collect::<String>().trim_end().into()
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
            ErrorKind::Io => Self::Unreachable(words(&error.to_string())),
            ErrorKind::AuthenticationFailed => Self::Denied,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType | ErrorKind::RESP3NotSupported => {
                Self::Protocol
            }
            ErrorKind::ClusterConnectionNotFound => Self::Cluster,
            // The enum is non-exhaustive.
            _ => {
                let text = error.detail().unwrap_or("no reason was given");
                Self::from_answer(&[error.code().unwrap_or("ERR"), text].join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_redis_is_classified_by_its_first_word_and_keeps_its_words() {
        use RedisCallError as E;
        let kept = |error: &str, class: fn(Arc<str>) -> E| {
            assert_eq!(E::from_answer(error), class(error.into()));
        };
        kept("NOPERM this user has no permissions to run the 'evalsha' command", E::NotPermitted);
        kept("ERR The user executing the script can't run this command or subcommand", E::NotPermitted);
        kept("READONLY You can't write against a read only replica.", E::ReadOnly);
        kept("OOM command not allowed when used memory > 'maxmemory'.", E::OutOfMemory);
        for code in ["LOADING", "MISCONF", "BUSY", "MASTERDOWN", "NOREPLICAS"] {
            kept(&format!("{code} for some reason"), E::NotServing);
        }
        kept("ERR DB index is out of range", E::Refused);
        kept("", E::Refused);
        for (codes, error) in [
            (["NOAUTH", "WRONGPASS"].as_slice(), E::Denied),
            (&["TRYAGAIN", "ASK"], E::SlotMoving),
            (&["WRONGTYPE"], E::WrongType),
            (&["MOVED", "CROSSSLOT", "CLUSTERDOWN"], E::Cluster),
        ] {
            assert!(codes.iter().all(|code| E::from_answer(&format!("{code} x")) == error), "{error:?}");
        }
    }

    #[test]
    fn words_of_redis_repeat_no_argument_and_are_one_line() {
        for unknown in [
            "ERR unknown command 'AUTH', with args beginning with: 'SECRET' ",
            "ERR unknown command `AUTH`, with args beginning with: `SECRET`, ",
        ] {
            let shown = RedisCallError::from_answer(unknown).to_string();
            assert!(shown.contains("unknown command") && !shown.contains("SECRET"), "{shown}");
        }
        let forged = RedisCallError::from_answer(&format!("ERR a\r\nb{}", "x".repeat(500))).to_string();
        assert!(forged.len() < 300 && !forged.contains(['\r', '\n']), "{forged}");
    }

    #[test]
    fn an_error_of_the_connection_is_classified_by_its_kind() {
        for (kind, error) in [
            (ErrorKind::Io, RedisCallError::Unreachable(" - Io".into())),
            (ErrorKind::AuthenticationFailed, RedisCallError::Denied),
            (ErrorKind::Parse, RedisCallError::Protocol),
            (ErrorKind::ClusterConnectionNotFound, RedisCallError::Cluster),
            (ErrorKind::InvalidClientConfig, RedisCallError::Refused("ERR no reason was given".into())),
        ] {
            assert_eq!(RedisCallError::from(RedisError::from((kind, ""))), error);
        }
    }
}
