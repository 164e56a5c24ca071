//! Connections to Redis, by their URLs: made on first use, shared by all calls, and dropped when they fail.

use std::{fmt, io, str::FromStr, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use petstore_clock::Clock;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult,
    Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    cluster_routing::SingleNodeRoutingInfo,
    io::tcp::TcpSettings,
};
use tokio::{sync::OnceCell, time::timeout};

use super::{
    RedisSettings,
    error::{RedisCallError, in_time},
    step::{self, Reply, Step},
};

/// Maximum number of redirections that are followed after those that the client of a Cluster follows.
const MAX_REDIRECTIONS: usize = 3;

/// Timeouts of Redis.
#[derive(Clone, Copy, Debug)]
pub struct RedisDeadlines {
    /// Timeout of a connection, with TLS and authentication: several round trips. Default 500 ms.
    pub connect: Duration,
    /// Timeout of a call. Default 50 ms.
    pub call: Duration,
    /// Timeout of a decision as its caller sees it, in every state of Redis and the network. Default 60 ms.
    pub decision: Duration,
}

impl RedisDeadlines {
    /// Returns the same timeout for everything.
    pub const fn all(deadline: Duration) -> Self {
        Self { connect: deadline, call: deadline, decision: deadline }
    }
}

impl Default for RedisDeadlines {
    fn default() -> Self {
        let [connect, call, decision] = [500, 50, 60].map(Duration::from_millis);
        Self { connect, call, decision }
    }
}

/// Connection to the server, or the Cluster, on which the script runs. Many calls share it. The first call
/// makes it and the others wait for it. When it fails, the next call makes a new one. So a wrong password
/// that is corrected at the server, or a server that moved to another address, is noticed without a restart.
pub(super) struct RedisConnection {
    clock: Option<Clock>,
    /// Timeout of an exchange.
    timeout: Duration,
    connect: Box<Connect>,
    current: Mutex<Arc<OnceCell<Peer>>>,
}

type Connect = dyn Fn() -> BoxFuture<'static, RedisResult<Peer>> + Send + Sync;

#[derive(Clone)]
enum Peer {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl RedisConnection {
    pub(super) fn new(settings: RedisSettings) -> Result<Self, &'static str> {
        let RedisSettings { urls, deadlines, clock, .. } = settings;
        let connect = connect(urls, deadlines)?;
        Ok(Self { clock, timeout: deadlines.call, connect, current: Mutex::default() })
    }

    /// Runs the steps, one after the other without interruption, and returns the reply to each.
    pub(super) async fn run(
        &self,
        steps: &[Step],
    ) -> Result<Vec<Result<Reply, RedisCallError>>, RedisCallError> {
        let time = self.clock.as_ref().map(|clock| clock.now().0);
        let answer = match self.send(&step::call("EVALSHA", &step::DIGEST, steps, time)).await {
            Err(RedisCallError::NoScript) => self.send(&step::call("EVAL", step::SOURCE, steps, time)).await,
            answer => answer,
        };
        step::parse(answer?, steps)
    }

    /// Sends a command, and drops the connection if that leaves it unusable.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisCallError> {
        let cell = Arc::clone(&*self.current.lock());
        let peer = cell.get_or_try_init(&self.connect).await?.clone();
        let exchange = async {
            let answer = match peer {
                Peer::Server(mut server) => server.req_packed_command(command).await,
                Peer::Cluster(cluster) => send_to_cluster(cluster, command).await,
            };
            Ok(answer.and_then(Value::extract_error)?)
        };
        in_time(self.timeout, exchange).await.inspect_err(|error| {
            let mut current = self.current.lock();
            // Another call may have dropped it already.
            if !error.leaves_connection_usable() && Arc::ptr_eq(&current, &cell) {
                *current = Arc::default();
            }
        })
    }
}

/// Returns the function that connects to the server, or to the Cluster if there are several URLs.
fn connect(urls: Vec<RedisUrl>, deadlines: RedisDeadlines) -> Result<Box<Connect>, &'static str> {
    let tcp = TcpSettings::default().set_nodelay(true);
    // The connection is closed after this time without an acknowledgement by the peer's kernel.
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(Duration::from_secs(2));
    let nodes: Vec<_> = urls
        .into_iter()
        .map(|RedisUrl(info)| {
            let redis = info.redis_settings().clone().set_skip_set_lib_name();
            info.set_tcp_settings(tcp.clone()).set_redis_settings(redis)
        })
        .collect();
    match <[_; 1]>::try_from(nodes) {
        Ok([server]) => {
            let client = Client::open(server).map_err(|_| "must be the URL of a Redis server")?;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(deadlines.connect))
                .set_response_timeout(None); // `in_time` has it
            Ok(Box::new(move || {
                let (client, config) = (client.clone(), config.clone());
                async move {
                    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
                    connected.map(Peer::Server)
                }
                .boxed()
            }))
        }
        Err(nodes) if nodes.is_empty() => Err("must name a Redis server"),
        Err(nodes) => {
            let client = ClusterClient::builder(nodes)
                .tcp_settings(tcp)
                .connection_timeout(deadlines.connect)
                .response_timeout(deadlines.call.max(Duration::from_secs(1))) // `in_time` ends before
                .retries(2) // for slots that moved
                .min_retry_wait(1) // the default is longer than any deadline
                .max_retry_wait(5)
                .build()
                .map_err(|_| {
                    "the nodes of a Redis Cluster must have the same user, password and TLS, and no database"
                })?;
            Ok(Box::new(move || {
                let client = client.clone();
                async move {
                    // The client of a Cluster asks a node for all others first.
                    match timeout(Duration::from_secs(1), client.get_async_connection()).await {
                        Ok(connected) => connected.map(Peer::Cluster),
                        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                    }
                }
                .boxed()
            }))
        }
    }
}

/// Sends a command to the node of its slot. While a slot moves, its old node refers calls to the new one
/// (`ASK`), which answers only if the command before was `ASKING`. The client sends the two separately, so
/// that a call of another caller may come between them, and follows few redirections. The remaining ones are
/// followed here, with both commands in one pipeline.
async fn send_to_cluster(mut cluster: ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    let mut answer = cluster.req_packed_command(command).await.and_then(Value::extract_error);
    for _ in 0..MAX_REDIRECTIONS {
        let Err(error) = &answer else { break };
        let node = error.redirect_node().and_then(|(node, _)| node.rsplit_once(':'));
        let Some((host, Ok(port))) = node.map(|(host, port)| (host.to_owned(), port.parse())) else { break };
        let mut calls = redis::pipe();
        calls.cmd("ASKING").add_command(command.clone());
        let route = SingleNodeRoutingInfo::ByAddress { host, port };
        let mut answers = cluster.route_pipeline(calls, 0, 2, route).await?;
        answer = answers.pop().unwrap_or(Value::Nil).extract_error();
    }
    answer
}

/// Address of a Redis server: `redis://[user:password@]host[:port][/database]`, with TLS `rediss://…`, or
/// `unix:///PATH` of a socket on the same machine.
///
/// Neither `Display` nor `Debug` shows user or password.
#[derive(Clone)]
pub struct RedisUrl(ConnectionInfo);

impl RedisUrl {
    pub(super) fn has_tls(&self) -> bool {
        matches!(self.0.addr(), ConnectionAddr::TcpTls { .. })
    }
}

impl FromStr for RedisUrl {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let has_scheme =
            ["redis://", "rediss://", "unix:///"].iter().any(|scheme| written.starts_with(scheme));
        // A fragment would turn off TLS verification, and a query would turn on another protocol.
        let is_allowed = has_scheme && !written.contains(['#', '?']);
        let info = is_allowed.then(|| written.into_connection_info().ok()).flatten();
        info.map(Self).ok_or(
            "must be redis://[user:password@]host[:port][/database], or rediss:// for TLS, with special \
             characters in user and password percent-encoded; or unix:///PATH",
        )
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, database) = (self.0.addr(), self.0.redis_settings().db());
        match address {
            ConnectionAddr::Unix(path) => write!(f, "unix://{}", path.display()),
            ConnectionAddr::TcpTls { .. } => write!(f, "rediss://{address}/{database}"),
            _ => write!(f, "redis://{address}/{database}"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_user_nor_password_is_ever_shown() {
        let url: RedisUrl = "rediss://USER:SECRET@redis.example:7000/2".parse().unwrap();
        assert!(url.has_tls());
        assert_eq!(url.to_string(), "rediss://redis.example:7000/2");
        assert_eq!(format!("{url:?}"), "rediss://redis.example:7000/2");
        let refused = "redis://USER:SECRET@[::1".parse::<RedisUrl>().unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("SECRET"));
    }

    #[test]
    fn port_and_database_default_to_those_of_redis() {
        let url: RedisUrl = "redis://localhost".parse().unwrap();
        assert!(!url.has_tls());
        assert_eq!(url.to_string(), "redis://localhost:6379/0");
    }

    #[test]
    fn a_unix_socket_is_a_path() {
        let url: RedisUrl = "unix:///run/redis/redis.sock".parse().unwrap();
        assert_eq!(url.to_string(), "unix:///run/redis/redis.sock");
    }

    #[test]
    fn only_redis_urls_are_accepted_and_tls_cannot_be_weakened() {
        for refused in [
            "",
            "localhost:6379",
            "http://localhost",
            "unix://run/redis.sock",
            "unix:///run/redis.sock?db=1",
            "redis+unix:///run/redis.sock",
            "rediss://localhost/#insecure",
            "redis://localhost/?protocol=resp3",
            "redis://localhost/first",
            "redis://0.0.0.0",
            "redis://",
        ] {
            assert!(refused.parse::<RedisUrl>().is_err(), "{refused}");
        }
    }
}
