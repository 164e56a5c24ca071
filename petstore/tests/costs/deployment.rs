//! The service in this process, and the counters of it and its servers.

use std::{net::SocketAddr, time::Duration};

use petstore::{
    Process,
    servers::{GatewaySettings, ServeSettings, start_gateway, start_service},
};
use petstore_clock::Clock;
use petstore_core::accounts::{AccountName, Plan, Quota};
use petstore_proto::admin::v1 as pb;
use petstore_settings::from_flags;
use petstore_testkit::{
    Client, account_message, administrator, eventually,
    faults::postgres::{PostgresProxy, Side},
    grpc_addr,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};
use tempfile::TempDir;

use crate::{
    Counters,
    requests::{Connection, Operation, PETS},
};

const FREE: [&str; 4] = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
/// Flags of the core. It has no cache of pets, so that calls of the database are counted.
const CORE_FLAGS: [&str; 4] = ["--grpc-addr", "127.0.0.1:0", "--pet-cache", "0"];

/// Limits that no account reaches.
const UNLIMITED: Quota = Quota { per_minute: 1_000_000_000, per_day: 1_000_000_000 };

/// Deployment whose requests in flight share one thread: this test's, the gateway's and the core's. So the
/// order in which they meet depends on the machine as little as possible.
pub(crate) struct Deployment {
    /// Address of REST.
    pub(crate) rest: SocketAddr,
    pub(crate) key: String,
    core: Process,
    servers: Option<Servers>,
    _folder: TempDir,
}

struct Servers {
    redis: RedisServer,
    postgres: PostgresProxy,
    _gateway: Process,
    _postgres: PostgresServer,
}

impl Deployment {
    /// Starts `petstore serve` on SQLite, counting in itself.
    pub(crate) async fn one_process() -> Self {
        // In memory where that exists: a creation that waits for a disk has up to two allocations more.
        let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary folder");
        let core = serve(&format!("sqlite://{}/petstore.db", folder.path().display())).await;
        let rest = core.addresses.http.expect("plain HTTP");
        Self::with_pets(Self { rest, key: key(&core).await, core, servers: None, _folder: folder }).await
    }

    /// Starts a gateway and a core, which speak over TCP, with PostgreSQL and Redis.
    pub(crate) async fn split() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (postgres, redis) = tokio::join!(
            PostgresServer::start(PostgresOptions::default()),
            RedisServer::start(RedisOptions::default())
        );
        let proxy = PostgresProxy::to(postgres.address()).await;
        let core = serve(&postgres.url_at(proxy.address())).await;
        let core_url = format!("http://{}", grpc_addr(&core.addresses));
        let flags = ["--core-url", &core_url, "--redis-url", &redis.url()];
        let settings = from_flags::<GatewaySettings, _>([FREE.as_slice(), &flags].concat());
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        let gateway = start_gateway(settings, Clock::system()).await.expect("the gateway starts");
        let admin = Client::new(gateway.addresses.admin);
        eventually(Duration::from_secs(10), async || match admin.get("/readyz").await {
            ready if ready.status() == 200 => Ok(()),
            unready => Err(format!("{unready:?}")),
        })
        .await;
        let rest = gateway.addresses.http.expect("plain HTTP");
        let servers = Servers { redis, postgres: proxy, _gateway: gateway, _postgres: postgres };
        let servers = Some(servers);
        Self::with_pets(Self { rest, key: key(&core).await, core, servers, _folder: folder }).await
    }

    async fn with_pets(self) -> Self {
        let mut connection = Connection::open(self.rest).await;
        for request in Operation::Create.requests(self.rest, &self.key).iter().cycle().take(PETS) {
            connection.exchange(request).await;
        }
        self
    }

    /// Returns the counters since the start.
    pub(crate) async fn counters(&self) -> Counters {
        let counts: &[_] = match &self.servers {
            None => &[("statements", self.statements_by_own_account().await)],
            Some(Servers { redis, postgres, .. }) => &[
                ("statements", messages(postgres, &["Execute", "Query"])),
                ("round trips", messages(postgres, &["Sync", "Query"])),
                ("calls of Redis", scripts_run(redis).await),
            ],
        };
        Counters(counts.iter().copied().collect())
    }

    /// Returns the count on the core's admin port: there is no proxy between it and SQLite.
    async fn statements_by_own_account(&self) -> u64 {
        let metrics = Client::new(self.core.addresses.admin).get("/metrics").await;
        let counts = metrics
            .text()
            .lines()
            .filter(|line| line.starts_with("db_client_operation_duration_seconds_count"));
        counts.map(|line| line.rsplit(' ').next().expect("a value").parse::<u64>().expect("a count")).sum()
    }
}

async fn serve(database: &str) -> Process {
    let flags = ["--database-url", database];
    let settings = from_flags::<ServeSettings, _>([FREE.as_slice(), &CORE_FLAGS, &flags].concat());
    let settings = settings.unwrap_or_else(|error| panic!("{error}"));
    start_service(settings, Clock::system()).await.expect("the service starts")
}

async fn key(core: &Process) -> String {
    let mut admin = administrator(core, Clock::system());
    let account = AccountName::parse("costs").expect("a name");
    let created =
        pb::CreateAccountRequest { account: Some(account_message(&account, Plan::Enterprise(UNLIMITED))) };
    admin.create_account(created).await.expect("a new account");
    let environment = pb::Environment::Production.into();
    let key = pb::CreateKeyRequest { account: account.to_string(), environment, ..Default::default() };
    admin.create_key(key).await.expect("the account is there").into_inner().api_key
}

/// Returns the number of messages of these names that were sent to PostgreSQL.
fn messages(postgres: &PostgresProxy, names: &[&str]) -> u64 {
    let seen = postgres.seen();
    let sent = seen.iter().filter(|(site, _)| site.side == Side::Frontend && names.contains(&site.message));
    sent.map(|(_, count)| count).sum()
}

/// Returns the number of scripts that Redis was asked to run.
async fn scripts_run(redis: &RedisServer) -> u64 {
    let stats = redis.cli(&["INFO", "commandstats"]).await;
    let calls = |name: &str| {
        stats.lines().find_map(|line| {
            line.strip_prefix(&format!("cmdstat_{name}:calls="))?.split(',').next()?.parse().ok()
        })
    };
    ["eval", "evalsha", "fcall"].into_iter().map(|name| calls(name).unwrap_or(0)).sum()
}
