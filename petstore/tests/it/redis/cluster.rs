//! Faults of a Redis Cluster under load: nodes that fail over to their replicas, and slots that move.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    SharedCounters, TestShop, eventually,
    history::{Conditions, Record},
    load::{Bounds, Load, Sender},
    servers::RedisCluster,
};
use tokio::task::JoinHandle;

use super::all_limiters_are;
use crate::{is_long, rounds};

const GATEWAYS: u16 = 2;
const NODES: usize = 3;

/// Number of accounts, enough for each node to have some.
const ACCOUNTS: usize = 24;

/// Requests a day of each account. The day is used so that no test is too slow for the window.
const LIMIT: u64 = 50;

/// Connections of the load, and so the maximum number of requests in flight.
const CONNECTIONS: usize = 8;

/// Time of load before and after a fault, longer than the interval of probes.
const LOAD_TIME: Duration = Duration::from_millis(400);

/// Timeout of a load on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_failovers_of_a_cluster_node_lose_no_count() {
    let mut deployment = Deployment::open().await;
    deployment.cluster.add_replica(0).await;
    let mut all = deployment.first_requests().await;
    for round in 0..rounds(2, 6) {
        let load = deployment.start_load();
        tokio::time::sleep(LOAD_TIME).await;
        // The primary of before is the replica then.
        deployment.cluster.promote(if round % 2 == 0 { NODES } else { 0 }, &[]).await;
        tokio::time::sleep(LOAD_TIME).await;
        all.extend(load.end().await);
    }
    all_limiters_are(&deployment.shop, "ok").await;
    let after = deployment.use_up().await;
    assert!(after.iter().all(is_shared), "all gateways share again: {after:?}");
    all.extend(after);
    assert_bounded(&all, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_cluster_node_limits_only_its_accounts_locally_until_its_replica_takes_over() {
    let mut deployment = Deployment::open().await;
    deployment.cluster.add_replica(0).await;
    for node in deployment.cluster.nodes() {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    }
    let mut all = deployment.first_requests().await;
    let of_dead_node = deployment.accounts_on(0).await;
    println!("{} of {ACCOUNTS} accounts are on the node", of_dead_node.len());
    let is_of_dead_node = |record: &Record| of_dead_node.contains(&record.account);

    let load = deployment.start_load();
    tokio::time::sleep(LOAD_TIME).await;
    deployment.cluster.node(0).kill9().await;
    all_limiters_are(&deployment.shop, "degraded").await;
    tokio::time::sleep(LOAD_TIME).await;
    deployment.cluster.promote(NODES, &["FORCE"]).await;
    all_limiters_are(&deployment.shop, "ok").await;
    let during = load.end().await;
    assert!(during.iter().any(|record| is_of_dead_node(record) && !is_shared(record)), "{during:?}");
    all.extend(during);
    let after = deployment.use_up().await;
    assert!(after.iter().all(is_shared), "all gateways share again: {after:?}");
    all.extend(after);

    assert!(all.iter().all(|record| matches!(record.status, Ok(400 | 429))), "{all:?}");
    let (of_dead_node, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of_dead_node);
    assert_exact(&others);
    // The replica may lack what the primary answered last.
    assert_bounded(&of_dead_node, CONNECTIONS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_no_node_serves_are_an_outage_until_one_does() {
    let deployment = Deployment::open().await;
    let nodes = deployment.cluster.nodes();
    for node in nodes {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    }
    // The owner first: the others would learn the slots from it again.
    for node in nodes {
        node.cli(&["CLUSTER", "DELSLOTSRANGE", "0", "999"]).await;
    }
    all_limiters_are(&deployment.shop, "degraded").await;
    tokio::time::sleep(2 * LOAD_TIME).await;
    all_limiters_are(&deployment.shop, "degraded").await;
    nodes[0].cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "999"]).await;
    all_limiters_are(&deployment.shop, "ok").await;
    for admin in deployment.shop.admins() {
        let metrics = admin.get("/metrics").await;
        assert!(
            metrics.text().contains("\npetstore_redis_outages_total 1\n"),
            "it flaps: {}",
            metrics.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_slots_move_between_nodes_of_a_cluster() {
    let deployment = Deployment::open().await;
    let mut all = deployment.first_requests().await;
    for round in 0..rounds(2, 12) {
        let load = deployment.start_load();
        let mut moves = Vec::new();
        for from in 0..NODES {
            for id in deployment.ids_on(from).await {
                let slot = deployment.cluster.slot_of(&id.to_string()).await;
                moves.push((slot, [from, (from + 1) % NODES]));
            }
        }
        assert_eq!(moves.len(), ACCOUNTS);
        for (slot, from_and_to) in &moves {
            deployment.cluster.begin_to_move(slot, *from_and_to).await;
        }
        tokio::time::sleep(LOAD_TIME).await;
        for (slot, from_and_to) in &moves {
            deployment.cluster.move_keys(slot, *from_and_to).await;
        }
        tokio::time::sleep(LOAD_TIME).await;
        for (slot, from_and_to) in &moves {
            deployment.cluster.end_move(slot, *from_and_to).await;
        }
        tokio::time::sleep(LOAD_TIME).await;
        all.extend(load.end().await);
        println!("round {round}: {} of {} admitted", admitted(&all), LIMIT * ACCOUNTS as u64);
        // Further rounds move the slots of accounts that are refused.
        all.extend(deployment.use_up().await);
    }
    // On a busy machine a gateway may decide alone for a moment.
    if is_long() { assert_exact(&all) } else { assert_bounded(&all, 0) }
}

/// Two gateways that share a Cluster, and accounts on all its nodes.
struct Deployment {
    cluster: RedisCluster,
    shop: TestShop,
    senders: Vec<Sender>,
}

impl Deployment {
    async fn open() -> Self {
        let cluster = RedisCluster::start(NODES).await;
        for node in cluster.nodes() {
            // Nodes of a busy machine do not take each other for failed.
            node.cli(&["CONFIG", "SET", "cluster-node-timeout", "15000"]).await;
        }
        let counters = SharedCounters::patiently_at_nodes(&cluster.urls());
        let shop = TestShop::open_on(&counters, GATEWAYS, &[]).await;
        all_limiters_are(&shop, "ok").await;
        let mut senders = Vec::new();
        for account in 0..ACCOUNTS {
            let key = shop.client_with(1_000_000, LIMIT).await.key().to_owned();
            senders.push(Sender { account, key });
        }
        Self { cluster, shop, senders }
    }

    /// Returns the load of all accounts in turn, by both gateways in turn. Its requests are counted, and
    /// refused without a call of the core, which may be late on a busy machine.
    fn load(&self) -> Load {
        Load::new(&self.shop.gateways(), &self.senders).on("/v1/pets?limit=0").over(CONNECTIONS)
    }

    /// Sends this number of requests.
    async fn send(&self, requests: usize) -> Vec<Record> {
        self.load().closed_loop(Bounds { requests, time: LOAD_TIMEOUT }).await
    }

    /// Sends a request of each account, so that each has a key of Redis.
    async fn first_requests(&self) -> Vec<Record> {
        self.send(ACCOUNTS).await
    }

    /// Sends requests until each account has used up its limit.
    async fn use_up(&self) -> Vec<Record> {
        let mut all = Vec::new();
        eventually(LOAD_TIMEOUT, async || {
            all.extend(self.send(5 * ACCOUNTS).await);
            let is_refused = |record: &&Record| (record.status, record.rl_limit) == (Ok(429), Some(LIMIT));
            let refused: BTreeSet<_> = all.iter().filter(is_refused).map(|record| record.account).collect();
            if refused.len() == ACCOUNTS { Ok(()) } else { Err(format!("{refused:?}")) }
        })
        .await;
        all
    }

    /// Sends requests at a fixed rate until the end.
    fn start_load(&self) -> RunningLoad {
        let (load, is_over) = (self.load(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_over);
        let records = tokio::spawn(async move {
            let mut records = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let bounds = Bounds { requests: ACCOUNTS, time: LOAD_TIMEOUT };
                records.extend(load.open_loop(200, bounds).await);
            }
            records
        });
        RunningLoad { is_over, records }
    }

    /// Returns the identifiers of the accounts whose counters are on the node.
    async fn ids_on(&self, node: usize) -> BTreeSet<u64> {
        let keys = self.cluster.nodes()[node].cli(&["KEYS", "pet:*"]).await;
        let id = |key: &str| key.split_once('{')?.1.split_once('}')?.0.parse().ok();
        keys.lines().filter_map(id).collect()
    }

    /// Returns the accounts whose counters are on the node. Identifiers ascend in the order of the accounts.
    async fn accounts_on(&self, node: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for node in 0..NODES {
            all.extend(self.ids_on(node).await);
        }
        assert_eq!(all.len(), ACCOUNTS);
        let on_node = self.ids_on(node).await;
        all.iter().enumerate().filter(|(_, id)| on_node.contains(*id)).map(|(account, _)| account).collect()
    }
}

/// Load that runs until it is ended.
struct RunningLoad {
    is_over: Arc<AtomicBool>,
    records: JoinHandle<Vec<Record>>,
}

impl RunningLoad {
    async fn end(self) -> Vec<Record> {
        self.is_over.store(true, Ordering::Relaxed);
        self.records.await.unwrap()
    }
}

fn admitted(records: &[Record]) -> u64 {
    records.iter().filter(|record| record.status == Ok(400)).count() as u64
}

fn is_shared(record: &Record) -> bool {
    record.scope.is_none()
}

/// Asserts that Redis admitted at most the limit of each account and `lost` requests, whose counts it may
/// have lost, and that gateways by themselves admitted at most their shares.
fn assert_bounded(records: &[Record], lost: u64) {
    assert!(records.iter().all(|record| matches!(record.status, Ok(400 | 429))), "{records:?}");
    for account in 0..ACCOUNTS {
        let records: Vec<_> = records.iter().filter(|record| record.account == account).cloned().collect();
        let (shared, alone): (Vec<_>, Vec<_>) = records.into_iter().partition(is_shared);
        let admitted = [&shared, &alone].map(|records| admitted(records));
        let bounds = [LIMIT + lost, LIMIT / u64::from(GATEWAYS) * u64::from(GATEWAYS)];
        assert!(admitted[0] <= bounds[0] && admitted[1] <= bounds[1], "{admitted:?} of {bounds:?}");
    }
}

/// Asserts that Redis decided on each request, and admitted exactly the limit of each account.
fn assert_exact(records: &[Record]) {
    let odd: Vec<_> = records
        .iter()
        .filter(|record| !matches!(record.status, Ok(400 | 429)) || !is_shared(record))
        .take(5)
        .collect();
    assert!(odd.is_empty(), "not decided by Redis: {odd:?}");
    let accounts: BTreeSet<_> = records.iter().map(|record| record.account).collect();
    let limits = accounts.into_iter().map(|account| (account, LIMIT)).collect();
    let report = Conditions { limits, gateways: u64::from(GATEWAYS), ..Conditions::default() }.check(records);
    report.assert_clean();
    assert!(report.windows.values().all(|count| count.admitted == LIMIT), "{:?}", report.windows);
}
