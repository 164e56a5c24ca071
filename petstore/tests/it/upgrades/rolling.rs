//! A cluster is replaced process by process under load: two gateways and two cores, PostgreSQL, Redis, and a
//! balancer in front of each pair.
//!
//! `scripts/test --long` builds the last release and names its binary in `PETSTORE_TEST_PREVIOUS`: the
//! cluster then moves between two releases. Otherwise both releases are the present one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    Answer, Authority, Balancer, Certificate, Client, Installation, Protocol, Server, Session,
    grpc::{self, pb},
    history::{Conditions, History, NoAnswer, Record, StoredPet, all_pets},
    load::{Bounds, Load, Sender},
    servers::{Database, PostgresServer, RedisOptions, RedisServer},
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{is_long, key_of, key_without_limits, pets::created};

/// Variable with the path of the last release's binary.
const PREVIOUS: &str = "PETSTORE_TEST_PREVIOUS";

/// Time between two requests of a client.
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of attempts at one request.
const ATTEMPTS: usize = 20;

/// Limits per minute of the accounts whose admitted requests are counted. The first is used up before the
/// roll begins, the last during it.
const LIMITS: [u32; 4] = [10, 30, 90, 270];

type PetStoreClient = pb::pet_store_client::PetStoreClient<grpc::Channel>;

/// Requests of these accounts per second, and the time for which connections are kept.
const LIMITED_RATE: u32 = 40;
const LIMITED_TIME: Bounds = Bounds { requests: usize::MAX, time: Duration::from_secs(2) };

/// Statuses after which a client repeats its request.
const REPEATED: [u16; 3] = [409, 503, 504];

#[derive(Clone, Copy, Debug)]
enum Part {
    Cores,
    Gateways,
}

#[tokio::test]
async fn a_cluster_rolls_to_the_next_release_and_back_without_a_failed_request() {
    let is_long = is_long();
    let previous = std::env::var(PREVIOUS).unwrap_or_else(|_| {
        assert!(!is_long, "{PREVIOUS} must name the binary of the last release: run scripts/test --long");
        env!("CARGO_BIN_EXE_petstore").to_owned()
    });
    let mut cluster = Cluster::start(&previous).await;
    let clients = Clients::start(&cluster).await;
    for round in 0..if is_long { 3 } else { 1 } {
        use Part::{Cores, Gateways};
        cluster.roll([Cores, Gateways], Release::Next).await;
        cluster.roll([Gateways, Cores], Release::Last).await;
        if is_long {
            cluster.roll([Gateways, Cores], Release::Next).await;
            cluster.roll([Cores, Gateways], Release::Last).await;
        }
        println!("round {round}: {} processes replaced", cluster.replaced);
    }
    let core = cluster.cores.first().expect("a core").address("gRPC");
    judge(clients.stop().await, all_pets(core).await);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Release {
    Last,
    Next,
}

struct Cluster {
    last: Installation,
    next: Installation,
    cores: Vec<Server>,
    gateways: Vec<Server>,
    grpc: Balancer,
    rest: Balancer,
    https: Balancer,
    authority: Authority,
    certificate: Certificate,
    redis: RedisServer,
    database: Database,
    /// Number of processes that were replaced.
    replaced: usize,
}

impl Cluster {
    async fn start(previous: &str) -> Self {
        let database = PostgresServer::shared().await.database().await;
        let installation = |program: &str| {
            Installation::of(program)
                .with_variable("PETSTORE_DATABASE_URL", &database.url())
                .with_variable("PETSTORE_DRAIN_DELAY", "300ms") // several checks of a balancer
        };
        let authority = Authority::new();
        let mut cluster = Self {
            last: installation(previous),
            next: installation(env!("CARGO_BIN_EXE_petstore")),
            cores: Vec::new(),
            gateways: Vec::new(),
            grpc: Balancer::start().await,
            rest: Balancer::start().await,
            https: Balancer::start().await,
            certificate: authority.issue("127.0.0.1"),
            authority,
            redis: RedisServer::start(RedisOptions::default()).await,
            database,
            replaced: 0,
        };
        cluster.migrate(Release::Last).await;
        for part in [Part::Cores, Part::Gateways] {
            for place in 0..2 {
                cluster.run(part, place, Release::Last).await;
            }
        }
        cluster
    }

    fn installation(&self, release: Release) -> &Installation {
        match release {
            Release::Last => &self.last,
            Release::Next => &self.next,
        }
    }

    /// Updates the schema, as the one job that does so.
    async fn migrate(&self, release: Release) {
        let migrated = self.installation(release).run(&["migrate", "up"]).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
    }

    /// Extends the schema once, as the release after the next one may.
    async fn extend(&self) {
        let change = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_colours', 0) \
                      ON CONFLICT DO NOTHING";
        for sql in ["ALTER TABLE pets ADD COLUMN IF NOT EXISTS colour text", change] {
            self.database.psql(sql).await;
        }
    }

    /// Replaces every process, one at a time, each after the one before is ready.
    async fn roll(&mut self, parts: [Part; 2], release: Release) {
        if release == Release::Next {
            self.migrate(release).await;
            self.extend().await;
        }
        for part in parts {
            for place in 0..2 {
                let running = if matches!(part, Part::Cores) { &mut self.cores } else { &mut self.gateways };
                let exit = running.remove(place).terminate().await;
                assert_eq!(exit.code, Some(0), "{part:?}: {exit:?}");
                self.run(part, place, release).await;
                self.replaced += 1;
            }
        }
    }

    /// Starts a process. Returns when it is ready and the balancer uses it.
    async fn run(&mut self, part: Part, place: usize, release: Release) {
        let installation = self.installation(release);
        match part {
            Part::Cores => {
                let ports = ["--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
                let core = installation.start(&[["core", "--no-migrate"].as_slice(), &ports].concat()).await;
                self.cores.insert(place, core);
                self.grpc.lead_to(&self.cores, "gRPC").await;
            }
            Part::Gateways => {
                let core = format!("http://{}", self.grpc.address());
                let ports = ["--http-addr", "--https-addr", "--admin-addr"].map(|flag| [flag, "127.0.0.1:0"]);
                let certificate =
                    ["--https-cert", &self.certificate.file, "--https-key", &self.certificate.key_file];
                let redis = self.redis.url();
                let limits = ["--redis-url", &redis, "--gateways", "2", "--bans", "off"];
                let command = ["gateway", "--core-url", &core];
                let flags = [command.as_slice(), ports.as_flattened(), &certificate, &limits].concat();
                self.gateways.insert(place, installation.start(&flags).await);
                self.rest.lead_to(&self.gateways, "REST").await;
                self.https.lead_to(&self.gateways, "HTTPS").await;
            }
        }
    }
}

/// Clients that send one request after another, and heed what the service says about connections and
/// retries.
struct Clients {
    is_over: Arc<AtomicBool>,
    history: History,
    running: JoinSet<()>,
}

impl Clients {
    async fn start(cluster: &Cluster) -> Self {
        let (is_over, history, mut running) = (Arc::default(), History::default(), JoinSet::new());
        let key = key_without_limits(&cluster.last).await;
        let http1 = Client::new(cluster.rest.address()).with_key(&key);
        let http2 = Client::new(cluster.https.address()).with_key(&key);
        let http2 = http2.over_tls(&cluster.authority, Protocol::Http2);
        for (name, client) in [("a", &http1), ("b", &http1), ("c", &http2), ("d", &http2)] {
            running.spawn(rest_client(
                name,
                Session::new(client.clone()),
                history.clone(),
                Arc::clone(&is_over),
            ));
        }
        for name in ["e", "f"] {
            let pets = grpc::pet_store(cluster.grpc.address()).await;
            running.spawn(grpc_client(name, pets, history.clone(), Arc::clone(&is_over)));
        }
        let mut senders = Vec::new();
        for (account, limit) in LIMITS.into_iter().enumerate() {
            let limit = limit.to_string();
            let limits = ["--plan", "enterprise", "--per-minute", &limit, "--per-day", "1000000"];
            let key = key_of(&cluster.last, &format!("limit-{limit}"), &limits).await;
            senders.push(Sender { account, key });
        }
        let load = Load::new(&[cluster.rest.address()], &senders).over(4);
        // On a busy machine, a gateway may not get Redis's answer in time.
        let is_used_up = |record: &Record| record.status == Ok(429) && record.scope.is_none();
        while !history.records().iter().any(is_used_up) {
            assert!(history.records().len() < 50_000, "Redis refuses no request of an account with a limit");
            load.open_loop(LIMITED_RATE, LIMITED_TIME)
                .await
                .into_iter()
                .for_each(|record| history.add(record));
        }
        running.spawn(limited_clients(load, history.clone(), Arc::clone(&is_over)));
        Self { is_over, history, running }
    }

    /// Stops them, and returns what they recorded.
    async fn stop(self) -> Vec<Record> {
        self.is_over.store(true, Ordering::Relaxed);
        self.running.join_all().await;
        self.history.records()
    }
}

fn judge(mut records: Vec<Record>, stored: Vec<StoredPet>) {
    // The balancer hides which gateway decided by itself, so each such decision stands alone.
    let alone = records.iter_mut().enumerate().filter(|(_, record)| record.scope.is_some());
    alone.for_each(|(number, record)| record.gateway = Some(number + 1));
    let limits = LIMITS.iter().map(|limit| u64::from(*limit)).enumerate().collect();
    let conditions = Conditions { stored: Some(stored), limits, gateways: 2, ..Conditions::default() };
    let report = conditions.check(&records);

    let is_expected = |record: &&Record| match record.status {
        Ok(200 | 201) => true,
        Ok(429) => record.account < LIMITS.len(),
        // An overloaded machine asks its clients to repeat a request.
        Ok(status) => REPEATED.contains(&status),
        Err(_) => false,
    };
    let failed: Vec<_> = records.iter().filter(|record| !is_expected(record)).collect();
    let is_repeated = |record: &&Record| record.status.is_ok_and(|status| REPEATED.contains(&status));
    let repeated = records.iter().filter(is_repeated).count();
    println!("{} requests, {} failed, {repeated} repeated; {report}", records.len(), failed.len());
    assert!(failed.is_empty(), "{} failed: {:#?}", failed.len(), failed.iter().take(10).collect::<Vec<_>>());
    assert!(repeated * 50 <= records.len(), "the service refused more than 2 % of the requests");
    report.assert_clean();
    assert!(report.acknowledged > 50, "too little was judged");
}

/// Adds pets, repeats each request, and reads each pet.
async fn rest_client(name: &str, mut session: Session, history: History, is_over: Arc<AtomicBool>) {
    for number in 1.. {
        let pet = StoredPet { id: 0, name: format!("{name}-{number}"), category_id: number };
        let mut id = 0;
        for _ in 0..2 {
            let Some(added) = add(&mut session, &history, &pet).await else { return };
            id = created(&added);
        }
        let path = format!("/v1/pets/{id}");
        if send(&mut session, &history, ("GET", &path), &[], "", &[]).await.is_none()
            || is_over.load(Ordering::Relaxed)
        {
            return;
        }
    }
}

async fn add(session: &mut Session, history: &History, pet: &StoredPet) -> Option<Answer> {
    let body = json!({"name": pet.name, "categoryId": pet.category_id}).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", pet.name.as_str())];
    send(session, history, ("POST", "/v1/pets"), &headers, &body, std::slice::from_ref(pet)).await
}

/// Sends a request, and repeats it until it succeeds, as the protocol says.
async fn send(
    session: &mut Session,
    history: &History,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
    adds: &[StoredPet],
) -> Option<Answer> {
    for _ in 0..ATTEMPTS {
        sleep(REQUEST_INTERVAL).await;
        let sent = Instant::now();
        let answer = session.send(method, path, headers, body.to_owned()).await;
        let recorded = answer.as_ref().map_err(|lost| {
            println!("{lost}");
            NoAnswer::Broken
        });
        history.add(Record::of_request(sent, 0, (LIMITS.len(), 0), adds.to_vec(), recorded));
        match answer {
            Ok(answer) if answer.status() < 300 => return Some(answer),
            Ok(answer) => {
                sleep(Duration::from_secs(answer.find("retry-after").map_or(1, |_| answer.retry_after())))
                    .await;
            }
            Err(_) => {}
        }
    }
    None
}

/// Adds pets over gRPC, and repeats each call.
async fn grpc_client(name: &str, mut pets: PetStoreClient, history: History, is_over: Arc<AtomicBool>) {
    for number in 1.. {
        let pet = StoredPet { id: 0, name: format!("{name}-{number}"), category_id: number };
        let new = grpc::new_pet(&pet.name, Some(number), pb::PetStatus::Sold);
        let request = pb::CreatePetRequest { pet: Some(new), request_id: pet.name.clone() };
        for _ in 0..2 {
            sleep(REQUEST_INTERVAL).await;
            let sent = Instant::now();
            let answer = loop {
                match pets.create_pet(request.clone()).await {
                    Err(status) if grpc::was_not_processed(&status) => {}
                    answer => break answer,
                }
            };
            let ids = answer.map(|added| [added.into_inner().pet.map_or(0, |pet| pet.id)]);
            if let Err(status) = &ids {
                println!("{status:?}");
            }
            let ids = ids.as_ref().map(<[i64; 1]>::as_slice);
            history.add(Record::of_call(sent, vec![pet.clone()], ids));
        }
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Sends requests of the accounts with limits, also when they are refused.
async fn limited_clients(load: Load, history: History, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        load.open_loop(LIMITED_RATE, LIMITED_TIME).await.into_iter().for_each(|record| history.add(record));
    }
}
