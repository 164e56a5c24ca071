//! Counters in Redis, shared by any number of gateways.
//!
//! `redis.lua` is the policy written for Redis: one call decides and counts, in Redis's own time. A caller
//! costs one key, and one more while a key of the account is being refused.

mod batch;
mod connection;
mod error;
mod reply;
mod step;
#[cfg(test)]
mod tests;
mod url;

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use petstore_clock::{Clock, UnixMillis};
use petstore_telemetry::traces::{KeyValue, Span, SpanDescription, SpanKind};
use redis::Value;
use tokio::time::timeout;

use self::{
    batch::Batcher,
    connection::{Connection, SendError},
    reply::Reply,
    step::{PROBES, Step},
};
pub use self::{
    connection::RedisDeadlines,
    error::RedisCallError,
    url::{InvalidRedisUrl, RedisUrl},
};
use super::{Decision, LimitKey, LimitStatus, LimiterUnavailable, Quota, RateLimiter, policy};

/// The longest name of an installation.
const LONGEST_NAME: usize = 64;

/// The probe at the start may wait for a connection to be made, with TLS.
const FIRST_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the counters are.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// One server, or several nodes of a Redis Cluster, which name the others.
    pub urls: Vec<RedisUrl>,
    /// How long it may take to answer.
    pub deadlines: RedisDeadlines,
    /// Which time decisions are made by.
    pub time: RedisTime,
}

/// Which time decisions are made by.
#[derive(Clone, Debug, Default)]
pub enum RedisTime {
    /// That of the Redis server, which is the same for all gateways.
    #[default]
    Server,
    /// That of a clock of this process. Clocks of several machines differ.
    Clock(Clock),
}

/// The settings cannot be used, whatever Redis does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisSetupError {
    /// There is no URL.
    #[error("must name a Redis server")]
    NoUrl,
    /// The URL is not one of a server.
    #[error("must be the URL of a Redis server")]
    Unusable,
    /// Several URLs that are not of one Cluster.
    #[error("the nodes of a Redis Cluster must have the same user, password and TLS, and no database")]
    UnlikeNodes,
}

/// What a healthy Redis says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisHealth {
    /// Whether its eviction policy may drop counters when its memory is full, and so hand quota out again:
    /// everything but `noeviction` may.
    pub evicts: bool,
}

/// Counts in Redis. Every gateway of an installation that names the same Redis shares the counters; until the
/// installation is known it makes no decision.
///
/// A failed or late answer is [`LimiterUnavailable`], never a guess; the request may have been counted all
/// the same. Nothing is retried but a call of which Redis says that it did nothing. Must be used inside a
/// tokio runtime.
#[derive(Debug)]
pub struct RedisLimiter {
    path: Path,
    deadlines: RedisDeadlines,
    last_error: Mutex<Option<RedisCallError>>,
    /// Whose counters they are; `None` until the core has told.
    installation: RwLock<Option<Arc<str>>>,
}

#[derive(Debug)]
enum Path {
    /// Waiting decisions share calls of the one server.
    Batched(Batcher),
    /// Each decision is a call of its own, pipelined: so a node of a Cluster that is away holds nobody else
    /// up.
    Single(Arc<Connection>),
}

impl RedisLimiter {
    /// A limiter that connects when it is first asked: it can be made before Redis is there.
    ///
    /// # Errors
    /// The URLs do not belong together.
    pub fn new(settings: RedisSettings) -> Result<Self, RedisSetupError> {
        let RedisSettings { urls, deadlines, time } = settings;
        if urls.iter().any(RedisUrl::has_tls) {
            // rustls wants one for the process. Err: it has one, which will do.
            let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        }
        let connection = Connection::new(urls, deadlines, time)?;
        let path = if connection.is_cluster() {
            Path::Single(Arc::new(connection))
        } else {
            Path::Batched(Batcher::new(connection))
        };
        Ok(Self { path, deadlines, last_error: Mutex::default(), installation: RwLock::default() })
    }

    /// Connects if need be, decides on a request that belongs to no account, with all that a decision takes,
    /// writing included, and asks for the eviction policy. Takes a second at most.
    ///
    /// # Errors
    /// Redis would not decide.
    pub async fn probe(&self) -> Result<RedisHealth, LimiterUnavailable> {
        let probe = async {
            self.run(Step::probe()).await?;
            let info = self.connection().send(redis::cmd("INFO").arg("memory")).await;
            match info {
                Ok(info) => Ok(RedisHealth { evicts: !forbids_eviction(&info) }),
                Err(SendError::Call(error)) => Err(error),
                Err(SendError::NoScript) => Err(RedisCallError::Protocol),
            }
        };
        self.within(FIRST_PROBE_TIMEOUT, probe).await
    }

    /// Decides on a request that belongs to no account, and writes it as any other. Returns Redis's time.
    ///
    /// # Errors
    /// Redis would not decide.
    pub(super) async fn probe_once(&self) -> Result<UnixMillis, LimiterUnavailable> {
        let taken = async { Ok(self.run(Step::probe()).await?.taken()?.decision(PROBES).now) };
        self.within(self.deadlines.decision, taken).await
    }

    /// Whose counters these are.
    ///
    /// # Errors
    /// The core has not told yet.
    fn installation(&self) -> Result<Arc<str>, LimiterUnavailable> {
        let installation = self.installation.read().unwrap_or_else(PoisonError::into_inner);
        installation.clone().ok_or(LimiterUnavailable)
    }

    /// Why Redis did not decide the last time that it did not; `None` if it always has.
    pub fn last_error(&self) -> Option<RedisCallError> {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> &Connection {
        match &self.path {
            Path::Batched(batcher) => batcher.connection(),
            Path::Single(connection) => connection,
        }
    }

    async fn run(&self, step: Step) -> Result<Reply, RedisCallError> {
        match &self.path {
            Path::Batched(batcher) => batcher.run(step).await,
            Path::Single(connection) => {
                // A task of its own, so that a connection is made even if that takes longer than a decision
                // may.
                let connection = Arc::clone(connection);
                let call = tokio::spawn(async move { connection.run(&[step]).await });
                let mut replies = call.await.unwrap_or(Err(RedisCallError::Unreachable))?;
                replies.pop().unwrap_or(Err(RedisCallError::Protocol))
            }
        }
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, RedisCallError>>,
    ) -> Result<T, LimiterUnavailable> {
        let span = Span::child(SpanKind::Client, describe);
        let result = span.within(timeout(deadline, work)).await.unwrap_or(Err(RedisCallError::TimedOut));
        result.map_err(|error| {
            span.fail(error.to_string());
            tracing::debug!(%error, "Redis made no decision");
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            LimiterUnavailable
        })
    }
}

/// A decision, from when it waits for its call of the script to its answer. The call may serve other requests
/// too: each has a span of its own for it, so that each is one tree.
fn describe() -> SpanDescription {
    let attributes =
        vec![KeyValue::new("db.system.name", "redis"), KeyValue::new("db.operation.name", "EVALSHA")];
    SpanDescription { name: "EVALSHA".into(), attributes }
}

/// Whether all servers that answered say `maxmemory_policy:noeviction`.
fn forbids_eviction(info: &Value) -> bool {
    match info {
        Value::Map(nodes) => nodes.iter().all(|(_, info)| forbids_eviction(info)),
        Value::BulkString(info) => String::from_utf8_lossy(info).contains("maxmemory_policy:noeviction"),
        Value::VerbatimString { text, .. } => text.contains("maxmemory_policy:noeviction"),
        _ => false,
    }
}

impl RateLimiter for RedisLimiter {
    fn take<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<Decision, LimiterUnavailable>> {
        Box::pin(async move {
            let step = Step::take(&self.installation()?, limit_key, quota, settled_at);
            let taken = async { Ok(self.run(step).await?.taken()?.decision(quota)) };
            self.within(self.deadlines.decision, taken).await
        })
    }

    fn inspect<'a>(
        &'a self,
        limit_key: &'a LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> BoxFuture<'a, Result<LimitStatus, LimiterUnavailable>> {
        Box::pin(async move {
            let step = Step::read(&self.installation()?, limit_key);
            let kept = async { self.run(step).await?.kept() };
            let (record, now) = self.within(self.deadlines.decision, kept).await?;
            Ok(policy::inspect(record, quota, settled_at, now))
        })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn set_installation(&self, name: &str) {
        // What could mislead Redis Cluster, or make keys long, is left out.
        let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
        let name: String = name.chars().filter(is_plain).take(LONGEST_NAME).collect();
        let mut installation = self.installation.write().unwrap_or_else(PoisonError::into_inner);
        if installation.as_deref() != Some(&name) {
            *installation = Some(name.into());
        }
    }

    fn knows_installation(&self) -> bool {
        self.installation().is_ok()
    }
}
