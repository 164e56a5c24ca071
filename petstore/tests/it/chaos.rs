//! Random schedules: several faults at once, at random times, under load, and one record that is judged.
//!
//! A run has rounds. Each chooses up to three parts of a deployment, and a fault, a time and a duration for
//! each. Then everything is healed and must be ready without a restart. Clients of several accounts send more
//! than their limits and add pets, with retries. At the end the record and the store are judged by every
//! rule of [`petstore_testkit::history`].
//!
//! With SQLite the deployment is one process, which counts in memory. With `PETSTORE_TEST_ENGINE=postgres` it
//! is a core, two gateways, PostgreSQL and Redis, and a proxy on each connection between them.
//! `PETSTORE_TEST_SEED` repeats the choices of a run, and `PETSTORE_TEST_LONG=1` (`scripts/test --long`)
//! makes it ten times as long.

mod clients;
mod parts;

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::join_all};
use petstore_testkit::{
    Client, Engine, Installation, Random, eventually,
    faults::Proxy,
    free_port,
    history::{BUSY_DEADLINE, Conditions, History, Interruption, all_pets},
    load::{Sender, Target},
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};
use serde_json::json;

use self::{
    clients::Clients,
    parts::{Fault, Part, Process},
};
use crate::{is_long, petstore};

const RUN_TIME: Duration = Duration::from_secs(80);
const LONG_RUN_TIME: Duration = Duration::from_mins(14);

/// Time within which everything is ready after its faults, on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// Time within which gateways share their limits again, on a busy machine. A gateway that saw Redis fail
/// repeatedly waits for up to 10 s, and for three answers in a row, each within 60 ms.
const SHARED_TIMEOUT: Duration = Duration::from_secs(90);

/// Limits per minute of the accounts. That of the first, which adds pets, is never reached. That of the
/// second is, even if a process loses its counts every few seconds. None is the limit of an address.
const LIMITS: [u64; 4] = [1_000_000, 3, 45, 121];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_random_schedule_of_faults_breaks_a_promise() {
    let random = Random::of_this_run();
    let seed = random.seed();
    println!("PETSTORE_TEST_SEED={seed}");
    if let Err(panic) = AssertUnwindSafe(run(random)).catch_unwind().await {
        panic!("PETSTORE_TEST_SEED={seed}: {}", message(&*panic));
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

async fn run(mut random: Random) {
    let time = if is_long() { LONG_RUN_TIME } else { RUN_TIME };
    let mut deployment = match Engine::of_this_run() {
        Engine::Sqlite => Deployment::of_one_process().await,
        Engine::Postgres => Deployment::split().await,
    };
    let history = History::default();
    let clients = Clients::start(&history, &deployment.targets, &deployment.senders, &mut random);
    let (start, mut faults, mut longest) = (Instant::now(), 0, [Duration::ZERO; 2]);
    while start.elapsed() < time {
        let schedule = deployment.schedule(&mut random);
        println!("{:?}: {schedule:?}", start.elapsed());
        faults += schedule.len();
        deployment.strike(&schedule).await;
        let healed = Instant::now();
        deployment.is_ready().await;
        longest[0] = longest[0].max(healed.elapsed());
        deployment.shares_limits().await;
        longest[1] = longest[1].max(healed.elapsed());
    }
    clients.stop().await;

    let (records, conditions) = (history.records(), deployment.conditions().await);
    let report = conditions.check(&records);
    let unanswered = records.iter().filter(|record| record.status.is_err()).count();
    let alone = records.iter().filter(|record| record.scope.is_some()).count();
    let refused: u64 = report.windows.values().map(|count| count.refused).sum();
    println!(
        "{faults} faults, ready and sharing after {longest:?} at most; {} requests, {refused} refused, \
         {unanswered} without an answer, {alone} decided without Redis; {report}",
        records.len()
    );
    report.assert_clean();
    let expected = [Ok(200), Ok(201), Ok(409), Ok(429), Ok(503), Ok(504)];
    let other = records.iter().find(|record| record.status.is_ok() && !expected.contains(&record.status));
    assert_eq!(other, None);
    assert!(report.acknowledged > 100 && refused > 10, "the rules had too little to judge: {report}");
}

/// Fault of a round: its part, and when it begins and ends, counted from the start of the round.
#[derive(Debug)]
struct Scheduled {
    part: String,
    fault: Fault,
    after: Duration,
    time: Duration,
}

struct Deployment {
    parts: Vec<(String, Part)>,
    targets: Vec<Target>,
    senders: Vec<Sender>,
    interruptions: Arc<Mutex<Vec<Interruption>>>,
    counts_in_memory: bool,
}

impl Deployment {
    async fn of_one_process() -> Self {
        let (installation, interruptions) = (Arc::new(petstore()), Arc::default());
        let http = address();
        let args =
            [&["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", &http, "--bans", "off"], &FLAGS[..]]
                .concat();
        let target = Target::new(http.parse().unwrap(), 0);
        let process = Process::start(&installation, &args, Some((&target, &interruptions))).await;
        let senders = senders(&installation).await;
        let file = Part::File(installation.folder().join("data/petstore.db"));
        let parts = vec![("service".to_owned(), Part::Process(process)), ("file".to_owned(), file)];
        Self { parts, targets: vec![target], senders, interruptions, counts_in_memory: true }
    }

    async fn split() -> Self {
        let postgres = PostgresServer::start(PostgresOptions::default()).await;
        let database = postgres.database().await;
        // A Redis that loses nothing when it is killed.
        let settings = vec![("appendfsync", "always")];
        let redis =
            RedisServer::start(RedisOptions { appendonly: true, settings, ..Default::default() }).await;
        let operator = petstore().with_variable("PETSTORE_DATABASE_URL", &database.url());

        let to_database = Proxy::to(postgres.address()).await;
        let url = database.url_at(to_database.address());
        let installation = Arc::new(petstore().with_variable("PETSTORE_DATABASE_URL", &url));
        let (grpc, interruptions) = (address(), Arc::default());
        let args = [&["core", "--grpc-addr", &grpc], &FLAGS[..]].concat();
        let core = Process::start(&installation, &args, None).await;
        let senders = senders(&operator).await;

        let mut parts = vec![
            ("PostgreSQL".to_owned(), Part::Postgres(postgres)),
            ("core".to_owned(), Part::Process(core)),
            ("core to PostgreSQL".to_owned(), Part::Connection(to_database)),
        ];
        let mut targets = Vec::new();
        for number in 0..2 {
            let to_core = Proxy::to(grpc.parse().unwrap()).await;
            let to_redis = Proxy::to(redis.address()).await;
            let core_url = format!("http://{}", to_core.address());
            let redis_url = redis.url_at(to_redis.address());
            let http = address();
            let flags = ["gateway", "--core-url", &core_url, "--redis-url", &redis_url, "--gateways", "2"];
            let args = [&flags[..], &["--http-addr", &http, "--bans", "off"], &FLAGS[..]].concat();
            let target = Target::new(http.parse().unwrap(), number);
            let gateway = Process::start(&installation, &args, Some((&target, &interruptions))).await;
            targets.push(target);
            parts.extend([
                (format!("gateway {number}"), Part::Process(gateway)),
                (format!("gateway {number} to core"), Part::Connection(to_core)),
                (format!("gateway {number} to Redis"), Part::Connection(to_redis)),
            ]);
        }
        parts.push(("Redis".to_owned(), Part::Redis(redis)));
        Self { parts, targets, senders, interruptions, counts_in_memory: false }
    }

    /// Chooses the faults of a round, at most one for each part.
    fn schedule(&self, random: &mut Random) -> Vec<Scheduled> {
        let mut schedule = Vec::<Scheduled>::new();
        for _ in 0..=random.below(3.min(self.parts.len())) {
            let (part, of_part) = &self.parts[random.below(self.parts.len())];
            let scheduled = Scheduled {
                part: part.clone(),
                fault: random.pick(of_part.faults()),
                after: random.between(Duration::ZERO, Duration::from_secs(3)),
                time: random.between(Duration::from_millis(50), Duration::from_secs(4)),
            };
            if schedule.iter().all(|other| other.part != scheduled.part) {
                schedule.push(scheduled);
            }
        }
        schedule
    }

    /// Lets the faults begin and end.
    async fn strike(&mut self, schedule: &[Scheduled]) {
        let strikes = self.parts.iter_mut().filter_map(|(name, part)| {
            let Scheduled { fault, after, time, .. } = schedule.iter().find(|one| one.part == *name)?;
            Some(async move {
                tokio::time::sleep(*after).await;
                part.suffer(*fault, *time).await;
            })
        });
        join_all(strikes).await;
    }

    /// Waits until every process is ready, and each gateway adds pets and lists them.
    async fn is_ready(&self) {
        eventually(RECOVERY_TIMEOUT, async || {
            for process in self.processes() {
                let ready = process.server().admin().get("/readyz").await;
                if ready.status() != 200 {
                    return Err(format!("{ready:?}"));
                }
            }
            for client in self.probes() {
                let listed = client.get("/v1/pets?limit=1").await;
                let added = client.post("/v1/pets", &json!({"name": "probe", "categoryId": 1})).await;
                if (listed.status(), added.status()) != (200, 201) {
                    return Err(format!("{listed:?}\n{added:?}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until no gateway limits by itself.
    async fn shares_limits(&self) {
        eventually(SHARED_TIMEOUT, async || {
            for client in self.probes() {
                let answer = client.get("/v1/pets?limit=1").await;
                if answer.find("x-ratelimit-scope").is_some() {
                    return Err(format!("{answer:?}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Returns a client of each gateway, with the account that has no effective limit. Its requests are not
    /// recorded, and all of them add the same pet.
    fn probes(&self) -> impl Iterator<Item = Client> {
        let gateways = self.processes().filter(|process| process.is_gateway());
        let client = |process: &Process| process.server().client(&self.senders[0].key);
        gateways.map(move |process| client(process).with_header("idempotency-key", "probe"))
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.parts.iter().filter_map(|(_, part)| match part {
            Part::Process(process) => Some(process),
            _ => None,
        })
    }

    async fn conditions(&self) -> Conditions {
        let core = self.processes().next().expect("a core").server();
        Conditions {
            stored: Some(all_pets(core.address("gRPC")).await),
            limits: LIMITS.into_iter().enumerate().collect(),
            gateways: self.targets.len() as u64,
            counts_in_memory: self.counts_in_memory,
            deadline: Some(BUSY_DEADLINE),
            interruptions: self.interruptions.lock().unwrap().clone(),
        }
    }
}

/// Flags of every process. Connections that are opened when SIGTERM arrives are accepted.
const FLAGS: [&str; 4] = ["--admin-addr", "127.0.0.1:0", "--drain-delay", "300ms"];

/// Returns an address that a process keeps when it restarts.
fn address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// Creates the accounts, each with one key.
async fn senders(operator: &Installation) -> Vec<Sender> {
    let mut senders = Vec::new();
    for (account, limit) in LIMITS.into_iter().enumerate() {
        let (name, limit) = (format!("account-{account}"), limit.to_string());
        let limits = ["--plan", "enterprise", "--per-minute", &limit, "--per-day", "1000000"];
        let created = operator.run(&[["account", "create", &name].as_slice(), &limits].concat()).await;
        assert_eq!(created.code, Some(0), "{created:?}");
        let key = operator.json(&["key", "create", "--account", &name]).await;
        senders.push(Sender { account, key: key["apiKey"].as_str().unwrap().to_owned() });
    }
    senders
}
