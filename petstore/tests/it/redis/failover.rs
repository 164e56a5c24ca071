//! Faults of Redis that are not a clean outage: answers that are sometimes late, a replica that is promoted,
//! gateways whose clocks jump.

use std::{collections::BTreeSet, time::Duration};

use petstore_testkit::{
    SharedCounters, TestShop, eventually,
    faults::{Fault, Proxy},
    history::{Conditions, Record, check},
    load::{Bounds, Load, Sender},
    servers::{RedisOptions, RedisServer},
};

use super::all_limiters_are;

const GATEWAYS: u16 = 2;

/// Timeout for a busy machine.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(90);

/// Account and its requests a day. The day is used so that no test is too slow for the window.
struct Account {
    sender: Sender,
    per_day: u64,
}

impl Account {
    async fn open(shop: &TestShop, number: usize, per_day: u64) -> Self {
        let key = shop.client_with(1_000_000, per_day).await.key().to_owned();
        Self { sender: Sender { account: number, key }, per_day }
    }

    /// Returns the maximum number of admitted requests, if gateways decide alone at times.
    fn bound(&self) -> u64 {
        self.per_day + u64::from(GATEWAYS) * (self.per_day / u64::from(GATEWAYS)).max(1)
    }
}

async fn load(shop: &TestShop, accounts: &[Account], requests: usize) -> Vec<Record> {
    let senders: Vec<_> = accounts.iter().map(|account| account.sender.clone()).collect();
    Load::new(&shop.gateways(), &senders)
        .over(8)
        .closed_loop(Bounds { requests, time: FAILOVER_TIMEOUT })
        .await
}

fn admitted(records: &[Record]) -> u64 {
    records.iter().filter(|record| record.status == Ok(200)).count() as u64
}

fn is_shared(record: &Record) -> bool {
    record.scope.is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_of_redis_is_never_taken_for_another() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let proxy = Proxy::to(redis.address()).await;
    let shop = TestShop::open_on(&SharedCounters::at(&redis.url_at(proxy.address())), GATEWAYS, &[]).await;
    all_limiters_are(&shop, "ok").await;
    let mut accounts = Vec::new();
    for number in 0..6 {
        // Each account has a different limit, so that its answers are recognised.
        accounts.push(Account::open(&shop, number, 50 + number as u64).await);
    }
    let mut records = Vec::new();
    // From early enough on any machine to about the time for which a gateway waits.
    let mut mean = [2, 10, 20, 30, 40, 50, 60].map(Duration::from_millis).into_iter().cycle();
    eventually(FAILOVER_TIMEOUT, async || {
        let by = mean.next().unwrap();
        proxy.set(Fault::Delay { by, jitter: by }).await;
        records.extend(load(&shop, &accounts, 60).await);
        // Answers can only be confused after one that arrived too late.
        let (shared, alone): (Vec<_>, Vec<_>) =
            records.iter().skip_while(|record| is_shared(record)).partition(|record| is_shared(record));
        let (shared, alone) = (shared.len(), alone.len());
        if shared.min(alone) >= 20 { Ok(()) } else { Err(format!("{shared} and {alone} decisions")) }
    })
    .await;
    proxy.set(Fault::None).await;

    assert!(records.iter().all(|record| matches!(record.status, Ok(200 | 429))), "{records:?}");
    let limits = accounts.iter().map(|account| (account.sender.account, account.per_day)).collect();
    let gateways = u64::from(GATEWAYS);
    Conditions { limits, gateways, ..Conditions::default() }.check(&records).assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_readmits_only_what_the_replica_had_not_received() {
    let at_once = || RedisOptions { settings: vec![("repl-diskless-sync-delay", "0")], ..Default::default() };
    let (mut primary, replica) = (RedisServer::start(at_once()).await, RedisServer::start(at_once()).await);
    let replication = Proxy::to(primary.address()).await;
    let address = replication.address();
    replica.cli(&["REPLICAOF", &address.ip().to_string(), &address.port().to_string()]).await;
    let front = Proxy::to(primary.address()).await;
    let shop = TestShop::open_on(&SharedCounters::at(&primary.url_at(front.address())), GATEWAYS, &[]).await;
    all_limiters_are(&shop, "ok").await;
    let account = [Account::open(&shop, 0, 60).await];

    let mut all = load(&shop, &account, 20).await;
    eventually(FAILOVER_TIMEOUT, async || match replica.cli(&["EXISTS", "pet:{probe}"]).await.as_str() {
        "1" => Ok(()), // the gateways' probes have been replicated, and so has everything before
        other => Err(other.to_owned()),
    })
    .await;
    primary.cli(&["WAIT", "1", "10000"]).await;
    replication.set(Fault::Blackhole).await;
    let lag = load(&shop, &account, 15).await;
    front.set(Fault::Refuse).await;
    primary.kill9().await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]).await;
    front.lead_to(replica.address());
    front.set(Fault::None).await;
    eventually(FAILOVER_TIMEOUT, async || {
        let last = load(&shop, &account, 30).await;
        let is_used_up =
            |record: &Record| is_shared(record) && (record.status, record.rl_limit) == (Ok(429), Some(60));
        let done = last.iter().any(is_used_up);
        all.extend(last);
        if done { Ok(()) } else { Err(format!("{:?}", all.last())) }
    })
    .await;

    let unseen = admitted(&lag);
    all.extend(lag);
    assert!(all.iter().all(|record| matches!(record.status, Ok(200 | 429))), "{all:?}");
    let shared: Vec<_> = all.iter().filter(|record| is_shared(record)).cloned().collect();
    println!(
        "admitted {} of 60, {} of them by Redis; {unseen} had not been replicated",
        admitted(&all),
        admitted(&shared)
    );
    assert!(admitted(&shared) <= 60 + unseen, "{} were admitted by Redis", admitted(&shared));
    let bound = account[0].bound() + unseen;
    assert!(admitted(&all) <= bound, "{} were admitted, not {bound}", admitted(&all));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jump_of_a_gateways_clock_changes_no_window_and_no_limit() {
    const HOUR: Duration = Duration::from_hours(1);
    const DAY: Duration = Duration::from_hours(24);
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::patiently_at(&redis.url()), GATEWAYS, &[]).await;
    all_limiters_are(&shop, "ok").await;
    let account = [Account::open(&shop, 0, 60).await];
    let mut all = load(&shop, &account, 25).await;
    let jumps: [&dyn Fn(); 5] = [
        &|| shop.advance(HOUR),
        &|| shop.turn_back(2 * HOUR),
        &|| shop.advance(DAY),
        &|| shop.turn_back(3 * DAY),
        &|| shop.advance(2 * DAY + HOUR),
    ];
    for jump in jumps {
        jump();
        all.extend(load(&shop, &account, 25).await);
    }
    let resets: BTreeSet<_> = all.iter().map(|record| record.rl_reset).collect();
    assert_eq!(resets.len(), 1, "one UTC day, by Redis's time: {resets:?}");
    assert!(all.iter().all(|record| is_shared(record) && matches!(record.status, Ok(200 | 429))), "{all:?}");
    check(&all).assert_clean();
    assert_eq!(admitted(&all), 60);
}
