//! Outages of Redis: requests are answered, and never without limit.

use std::{
    cell::Cell,
    fmt::Debug,
    time::{Duration, Instant},
};

use petstore_testkit::{
    Client, SharedCounters, TestShop, eventually,
    faults::{Fault, Proxy},
    history::{Record, latency_at},
    load::{Bounds, Load, Sender},
    servers::{RedisCluster, RedisOptions, RedisServer},
};

use super::{NOTICED_TIMEOUT, all_limiters_are, all_limiters_say, is_counted_in_redis};

/// Limit of the account in the window under test. The day is used so that no test is too slow for the window.
const LIMIT: u64 = 60;
const GATEWAYS: u16 = 2;
const SHARE: u64 = LIMIT / GATEWAYS as u64;

/// Time that many decisions that each wait for Redis would take. A busy machine may delay a few requests for
/// longer.
const SLOW_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Time that a request takes only if it hangs, not because of the machine.
const HUNG_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Kinds of outages of Redis.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Killed,
    Stopped,
    Slow,
    OutOfMemory,
    ReadOnly,
    Unreachable,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_killed() {
    is_survived(Outage::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_stopped() {
    is_survived(Outage::Stopped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_slow() {
    is_survived(Outage::Slow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_out_of_memory() {
    is_survived(Outage::OutOfMemory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_a_read_only_replica() {
    is_survived(Outage::ReadOnly).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_unreachable() {
    is_survived(Outage::Unreachable).await;
}

async fn is_survived(outage: Outage) {
    let mut deployment = Box::pin(ProxiedDeployment::open(&[])).await;
    let account = deployment.account(LIMIT).await;
    let shared = deployment.load(&account, 10).await;
    assert!(shared.iter().all(|record| record.status == Ok(200)), "{shared:?}");
    assert!(shared.iter().any(|record| record.scope.is_none()), "{outage:?}: counted in Redis: {shared:?}");

    deployment.begin(outage).await;
    let first = deployment.load(&account, 4).await;
    deployment.all_say("degraded", outage).await;
    let refuses = matches!(outage, Outage::OutOfMemory | Outage::ReadOnly);
    let (cause, consequence) = if refuses {
        ("redis_refuses", "--on-redis-failure decides")
    } else {
        ("redis_unreachable", "to its share of the limits")
    };
    all_limiters_say(&deployment.shop, cause, consequence).await;
    let alone = deployment.load(&account, 200).await;
    assert!(alone.iter().all(|record| record.scope.as_deref() == Some("node")), "{outage:?}: {alone:?}");
    assert!(alone.iter().all(|record| record.rl_limit == Some(SHARE)), "{outage:?}: {alone:?}");
    assert!(alone.iter().any(|record| record.status == Ok(429)), "{outage:?}: a share is limited");
    if let Outage::Slow = outage {
        deployment.stays_degraded_for(Duration::from_secs(3)).await;
    }

    deployment.end(outage).await;
    deployment.all_say("ok", outage).await;
    let back = deployment.load_until_refused(&account, LIMIT).await;

    let figures =
        |records: &[Record]| (latency_at(0.5, records), latency_at(0.99, records), latency_at(1., records));
    println!("{outage:?}: latency p50, p99, max: first {:?}, alone {:?}", figures(&first), figures(&alone));
    let all = [shared, first, alone, back].concat();
    assert!(all.iter().all(|record| matches!(record.status, Ok(200 | 429))), "{outage:?}: {all:?}");
    let admitted = all.iter().filter(|record| record.status == Ok(200)).count() as u64;
    println!("{outage:?}: admitted {admitted} of {LIMIT}, at most {}", LIMIT + u64::from(GATEWAYS) * SHARE);
    assert!((LIMIT..=LIMIT + u64::from(GATEWAYS) * SHARE).contains(&admitted), "{outage:?}: {admitted}");
    let (most, longest) = (latency_at(0.99, &all), latency_at(1., &all));
    assert!(most < SLOW_REQUEST_TIMEOUT, "{outage:?}: one request in a hundred took {most:?} or longer");
    assert!(longest < HUNG_REQUEST_TIMEOUT, "{outage:?}: a request took {longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_over_its_limit_stays_refused_without_redis() {
    let mut deployment = ProxiedDeployment::open(&[]).await;
    let (account, other) = (deployment.account(LIMIT).await, deployment.account(LIMIT).await);
    deployment.load_until_refused(&account, LIMIT).await;
    deployment.begin(Outage::Unreachable).await;
    deployment.all_say("degraded", Outage::Unreachable).await;
    all_limiters_say(&deployment.shop, "redis_unreachable", "by itself, to its share of the limits").await;
    assert_eq!(admitted(&deployment.load(&account, 40).await), 0, "it waits for the window's end");
    let shares = deployment.load_until_refused(&other, SHARE).await;
    assert_eq!(admitted(&shares), LIMIT, "two shares make the limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_of_redis_opens_new_windows_without_an_outage() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), GATEWAYS, &[]).await;
    let deployment =
        ProxiedDeployment { proxy: Proxy::to(redis.address()).await, redis, shop, senders: Cell::default() };
    let account = deployment.account(LIMIT).await;
    let mut total = admitted(&deployment.load(&account, 40).await);
    deployment.redis.cli(&["SCRIPT", "FLUSH"]).await;
    total += admitted(&deployment.load(&account, 40).await);
    assert_eq!(total, LIMIT, "scripts may be forgotten");
    deployment.redis.cli(&["FLUSHALL"]).await;
    let after = deployment.load(&account, 100).await;
    assert_eq!(admitted(&after), LIMIT, "{after:?}");
    assert!(after.iter().all(|record| matches!(record.status, Ok(200 | 429))), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_redis_password_ends_the_outage() {
    let redis = RedisServer::start(RedisOptions { requirepass: Some("right"), ..Default::default() }).await;
    let wrong = redis.url().replace(":right@", ":wrong@");
    let shop = TestShop::open_on(&SharedCounters::at(&wrong), 1, &[]).await;
    let client = shop.client_with(LIMIT, 1_000).await;
    let answer = client.get("/v1/pets").await;
    assert_eq!(answer.assert_status(200).header("x-ratelimit-scope"), "node", "{answer:?}");
    all_limiters_are(&shop, "degraded").await;
    redis.cli(&["CONFIG", "SET", "requirepass", "wrong"]).await;
    all_limiters_are(&shop, "ok").await;
    is_counted_in_redis(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_starts_without_redis_and_uses_it_once_it_is_reachable() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let proxy = Proxy::to(redis.address()).await;
    proxy.set(Fault::Refuse).await;
    let shop = TestShop::open_on(&SharedCounters::at(&redis.url_at(proxy.address())), 1, &[]).await;
    all_limiters_are(&shop, "degraded").await;
    let client = shop.client_with(LIMIT, 1_000).await;
    assert_eq!(client.get("/v1/pets").await.rate().remaining, LIMIT - 1);
    proxy.set(Fault::None).await;
    all_limiters_are(&shop, "ok").await;
    client.get("/v1/pets").await.assert_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_limited_while_redis_is_unreachable() {
    let mut deployment = ProxiedDeployment::open(&[]).await;
    deployment.begin(Outage::Unreachable).await;
    deployment.all_say("degraded", Outage::Unreachable).await;
    let answers = deployment.shop.anonymous().sends(301, "/v1/pets").await;
    let (last, before) = answers.split_last().unwrap();
    assert!(before.iter().all(|answer| answer.status() == 401), "{:?}", before.last());
    assert_eq!(last.assert_error(429, "RATE_LIMITED").rate().limit, 300, "{last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_admits_everything_while_redis_is_unreachable() {
    let mut deployment = ProxiedDeployment::open(&["--on-redis-failure", "open"]).await;
    let client = deployment.shop.client_with(5, 1_000).await;
    client.get("/v1/pets").await.assert_status(200);
    deployment.begin(Outage::Unreachable).await;
    deployment.all_say("degraded", Outage::Unreachable).await;
    all_limiters_say(&deployment.shop, "redis_unreachable", "is not limited").await;
    for answer in client.sends(20, "/v1/pets").await {
        let rate = answer.assert_status(200).rate();
        assert_eq!((rate.limit, rate.remaining), (5, 4), "the plan's own headers: {answer:?}");
        assert_eq!(answer.header("x-ratelimit-scope"), "node", "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_refuses_everything_while_redis_is_unreachable() {
    let mut deployment = ProxiedDeployment::open(&["--on-redis-failure", "closed"]).await;
    let client = deployment.shop.client_with(1_000, 10_000).await;
    // A decision of Redis that arrives late is a refusal, too.
    let is_admitted = async || {
        eventually(NOTICED_TIMEOUT, async || match client.get("/v1/pets").await {
            answer if answer.status() == 200 => Ok(()),
            answer => Err(format!("{answer:?}")),
        })
        .await;
    };
    is_admitted().await;
    deployment.begin(Outage::Unreachable).await;
    deployment.all_say("degraded", Outage::Unreachable).await;
    all_limiters_say(&deployment.shop, "redis_unreachable", "get 503 LIMITER_UNAVAILABLE").await;
    for client in [&client, &deployment.shop.anonymous()] {
        let answer = client.get("/v1/pets").await;
        answer.assert_error(503, "LIMITER_UNAVAILABLE");
        assert_eq!(answer.retry_after(), 1, "{answer:?}");
    }
    deployment.end(Outage::Unreachable).await;
    deployment.all_say("ok", Outage::Unreachable).await;
    is_admitted().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_cluster_node_affects_only_its_own_accounts() {
    let mut cluster = RedisCluster::start(3).await;
    for node in cluster.nodes() {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    }
    let counters = SharedCounters::patiently_at_nodes(&cluster.urls());
    let shop = TestShop::open_on(&counters, 1, &[]).await;
    all_limiters_are(&shop, "ok").await;
    let mut clients = Vec::new();
    for _ in 0..30 {
        let client = shop.client_with(1_000_000, 1_000_000).await;
        is_counted_in_redis(&client).await;
        clients.push(client);
    }
    // Each key belongs to one account: the keys of other nodes are on living nodes.
    let kept =
        cluster.nodes()[0].cli(&["KEYS", "pet:*"]).await.lines().filter(|key| !key.contains("probe")).count();
    assert!((1..30).contains(&kept), "{kept} of 30 accounts");
    cluster.node(0).kill9().await;
    all_limiters_are(&shop, "degraded").await;
    let is_shared = async |client: &Client| {
        client.get("/v1/pets").await.assert_status(200).find("x-ratelimit-scope").is_none()
    };
    // The cluster's nodes take some time to agree that they continue without it.
    let shared = eventually(NOTICED_TIMEOUT, async || {
        let mut shared = Vec::new();
        for client in &clients {
            if is_shared(client).await {
                shared.push(client);
            }
        }
        if shared.len() == 30 - kept { Ok(shared) } else { Err(format!("{} of {}", shared.len(), 30 - kept)) }
    })
    .await;
    for _ in 0..20 {
        for client in &shared {
            assert!(is_shared(client).await, "a living node goes on counting");
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // probes of the dead node pass
    }
    cluster.node(0).restart().await;
    all_limiters_are(&shop, "ok").await;
    for client in &clients {
        is_counted_in_redis(client).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_holds_while_redis_is_unreachable_even_with_open() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let proxy = Proxy::to(redis.address()).await;
    let counters = SharedCounters::by_clock(&[redis.url_at(proxy.address())]); // bans are by the shop's clock
    let shop = TestShop::open_on(&counters, GATEWAYS, &["--on-redis-failure", "open"]).await;
    let mut deployment = ProxiedDeployment { redis, proxy, shop, senders: Cell::default() };
    let (banned, other) =
        (deployment.shop.client_with(5, 1_000).await, deployment.shop.client_with(5, 1_000).await);
    deployment.shop.ban(&banned, Duration::from_hours(1)).await;
    eventually(NOTICED_TIMEOUT, async || match banned.get("/v1/usage").await.json() {
        usage if usage["ban"].is_object() => Ok(()),
        usage => Err(usage.to_string()),
    })
    .await;
    other.get("/v1/pets").await.assert_status(200);
    deployment.begin(Outage::Unreachable).await;
    deployment.all_say("degraded", Outage::Unreachable).await;
    for _ in 0..5 {
        banned.get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
        other.get("/v1/pets").await.assert_status(200);
    }
}

fn admitted(records: &[Record]) -> u64 {
    records.iter().filter(|record| record.status == Ok(200)).count() as u64
}

/// Two gateways that share a Redis, behind a proxy.
struct ProxiedDeployment {
    redis: RedisServer,
    proxy: Proxy,
    shop: TestShop,
    senders: Cell<usize>,
}

impl ProxiedDeployment {
    async fn open(flags: &[&str]) -> Self {
        let redis = RedisServer::start(RedisOptions { appendonly: true, ..Default::default() }).await;
        let proxy = Proxy::to(redis.address()).await;
        let counters = SharedCounters::at(&redis.url_at(proxy.address()));
        let shop = TestShop::open_on(&counters, GATEWAYS, flags).await;
        all_limiters_are(&shop, "ok").await; // a busy machine may have been too slow for the first try
        Self { redis, proxy, shop, senders: Cell::default() }
    }

    /// Returns a new account with that many requests a day.
    async fn account(&self, per_day: u64) -> Sender {
        let account = self.senders.replace(self.senders.get() + 1);
        Sender { account, key: self.shop.client_with(1_000_000, per_day).await.key().to_owned() }
    }

    /// Sends this number of requests of the account, by both gateways in turn.
    async fn load(&self, account: &Sender, requests: usize) -> Vec<Record> {
        let load = Load::new(&self.shop.gateways(), std::slice::from_ref(account)).over(4);
        load.closed_loop(Bounds { requests, time: Duration::from_secs(30) }).await
    }

    /// Sends requests of the account until each gateway has refused one by this limit: that of the account if
    /// Redis has reported it, or the gateway's share. On a busy machine some are 503 first, which count
    /// nothing.
    async fn load_until_refused(&self, account: &Sender, limit: u64) -> Vec<Record> {
        let mut all = Vec::new();
        eventually(NOTICED_TIMEOUT, async || {
            all.extend(self.load(account, 100).await);
            let is_reported = |gateway: usize| {
                let refused = (Some(gateway), Ok(429), Some(limit));
                all.iter().any(|record| (record.gateway, record.status, record.rl_limit) == refused)
            };
            if (0..usize::from(GATEWAYS)).all(is_reported) {
                Ok(())
            } else {
                Err(format!("{:?}", all.last()))
            }
        })
        .await;
        all
    }

    async fn begin(&mut self, outage: Outage) {
        match outage {
            Outage::Killed => {
                // This test is not about the last second that the append-only file may lack.
                self.redis.cli(&["CONFIG", "SET", "appendfsync", "always"]).await;
                self.redis.kill9().await;
            }
            Outage::Stopped => self.redis.pause(),
            Outage::Slow => self.proxy.set(Fault::delay_ms(200)).await,
            Outage::OutOfMemory => drop(self.redis.cli(&["CONFIG", "SET", "maxmemory", "1"]).await),
            Outage::ReadOnly => drop(self.redis.cli(&["REPLICAOF", "127.0.0.1", "1"]).await),
            Outage::Unreachable => self.proxy.set(Fault::Refuse).await,
        }
    }

    async fn end(&mut self, outage: Outage) {
        match outage {
            Outage::Killed => self.redis.restart().await,
            Outage::Stopped => self.redis.resume(),
            Outage::Slow | Outage::Unreachable => self.proxy.set(Fault::None).await,
            Outage::OutOfMemory => drop(self.redis.cli(&["CONFIG", "SET", "maxmemory", "0"]).await),
            Outage::ReadOnly => drop(self.redis.cli(&["REPLICAOF", "NO", "ONE"]).await),
        }
    }

    async fn all_say(&self, expected: &str, outage: impl Debug) {
        let start = Instant::now();
        all_limiters_are(&self.shop, expected).await;
        println!("{outage:?}: {expected} after {:?}", start.elapsed());
    }

    async fn stays_degraded_for(&self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            for admin in self.shop.admins() {
                let ready = admin.get("/readyz").await;
                assert_eq!(ready.json()["parts"]["limiter"], "degraded", "no flapping: {ready:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
