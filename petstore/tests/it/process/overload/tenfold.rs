//! Ten times the load that the machine can serve.
//!
//! Two things limit a service: its database, or the processor. A proxy makes the database slow, and clients
//! then send ten times as many requests per second as were answered. If the processor is the limit, clients
//! on the same machine cannot do that: they use ten times as many connections, and send on each as soon as
//! it is free.
//!
//! `scripts/test --long` builds a release and names its binary in `PETSTORE_TEST_RELEASE`. Without
//! optimisation the refusals themselves would be the load.

use std::{
    thread,
    time::{Duration, Instant},
};

use petstore_testkit::{
    Client, Installation, Server,
    faults::{Fault, Proxy},
    history::{Record, latency_at},
    load::{Bounds, Load, Sender},
    servers::{PostgresServer, RedisOptions, RedisServer},
};
use serde_json::json;
use tokio::{sync::oneshot, time::sleep};

use crate::{key_of, petstore, serve, split::start_gateway};

/// Variable with the path of the release's binary.
const RELEASE: &str = "PETSTORE_TEST_RELEASE";
const NO_PET_CACHE: [&str; 2] = ["--pet-cache", "0"];
/// Time of a phase.
const PHASE: Bounds = Bounds { requests: usize::MAX, time: Duration::from_secs(5) };
/// Requests of the other account per second, few enough for the slowest service.
const PROBES: u32 = 15;
/// Bucket of the histogram of durations that has the refusals "at once", in seconds.
const AT_ONCE: &str = "0.025";

/// Returns the binary of the release in an empty folder.
fn release() -> Installation {
    std::env::var(RELEASE).map_or_else(|_| petstore(), |binary| Installation::of(&binary))
}

/// Deployment with two accounts without effective limits, an operator and a pet.
struct Deployment {
    /// Process that serves REST.
    server: Server,
    noisy: Sender,
    other: Sender,
    operator: Client,
    pet: String,
    /// Connection of the core to PostgreSQL, if it is slow.
    database: Option<Proxy>,
    _others: (Installation, Option<Server>, Option<RedisServer>),
}

impl Deployment {
    /// Starts one process on SQLite.
    async fn on_sqlite() -> Self {
        let installation = release();
        let server = installation.start(&serve(&NO_PET_CACHE)).await;
        Self::new(installation, server, None, None, None).await
    }

    /// Starts one process on PostgreSQL, with a connection that can be slow.
    async fn on_slow_database() -> Self {
        let database = PostgresServer::shared().await.database().await;
        let proxy = Proxy::to(PostgresServer::shared().await.address()).await;
        let url = database.url_at(proxy.address());
        let installation = release().with_variable("PETSTORE_DATABASE_URL", &url);
        let server = installation.start(&serve(&NO_PET_CACHE)).await;
        Self::new(installation, server, None, Some(proxy), None).await
    }

    /// Starts a gateway and a core on PostgreSQL and Redis.
    async fn split() -> Self {
        let database = PostgresServer::shared().await.database().await;
        let redis = RedisServer::start(RedisOptions::default()).await;
        let installation = release().with_variable("PETSTORE_DATABASE_URL", &database.url());
        let ports = ["core", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let core = installation.start(&[ports.as_slice(), &NO_PET_CACHE].concat()).await;
        let installation = installation.with_variable("PETSTORE_REDIS_URL", &redis.url());
        let gateway = start_gateway(&installation, &core.address("gRPC").to_string()).await;
        gateway.ready().await;
        Self::new(installation, gateway, Some(core), None, Some(redis)).await
    }

    async fn new(
        installation: Installation,
        server: Server,
        core: Option<Server>,
        database: Option<Proxy>,
        redis: Option<RedisServer>,
    ) -> Self {
        let limits = ["--plan", "enterprise", "--per-minute", "100000000", "--per-day", "100000000"];
        let noisy = Sender { account: 0, key: key_of(&installation, "noisy", &limits).await };
        let other = Sender { account: 1, key: key_of(&installation, "other", &limits).await };
        let token = installation.run(&["operator", "create", "ann", "--role", "viewer"]).await.stdout;
        let added =
            server.client(&other.key).post("/v1/pets", &json!({"name": "Rex", "categoryId": 7})).await;
        Self {
            noisy,
            other,
            operator: server.admin().with_key(token.trim()),
            pet: added.assert_status(201).header("location").to_owned(),
            server,
            database,
            _others: (installation, core, redis),
        }
    }

    /// Returns a load of the sender that reads the pet, or adds pets, over this number of connections.
    fn load(&self, sender: &Sender, is_read: bool, connections: usize) -> Load {
        let load = Load::new(&[self.server.address("REST")], std::slice::from_ref(sender)).over(connections);
        if is_read { load.on(&self.pet) } else { load.adding() }
    }

    /// Delays each answer of the database by this time, on connections that are open.
    async fn slow_down(&self, is_read: bool, millis: u64) {
        let database = self.database.as_ref().expect("a proxy");
        database.set(Fault::None).await;
        let opening = Bounds { requests: 100, ..PHASE };
        let opened = self.load(&self.noisy, is_read, 16).closed_loop(opening).await;
        assert_eq!(goodput(&opened), opened.len());
        database.set(Fault::delay_ms(millis)).await;
    }

    /// Sends requests of operators during a phase, and returns how long each took. Only liveness does not ask
    /// the database.
    async fn operate(&self) -> Vec<Duration> {
        let paths = ["/livez", "/readyz", "/metrics", "/admin/v1/accounts/noisy/keys"];
        let paths = if self.database.is_some() { &paths[..1] } else { &paths };
        let (begin, mut took) = (Instant::now(), Vec::new());
        while begin.elapsed() < PHASE.time {
            for path in paths {
                let sent = Instant::now();
                self.operator.get(path).await.assert_status(200);
                took.push(sent.elapsed());
            }
            sleep(Duration::from_millis(50)).await;
        }
        took
    }

    /// Returns the number of answers with a status 5xx, and of these the number of those sent at once.
    async fn refusals(&self) -> [u64; 2] {
        let metrics = self.server.admin().get("/metrics").await;
        ["+Inf", AT_ONCE].map(|bound| {
            let lines = metrics.text().lines().filter(|line| {
                line.starts_with("http_server_request_duration_seconds_bucket")
                    && line.contains(r#"http_response_status_code="5"#)
                    && line.contains(&format!(r#"le="{bound}""#))
            });
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
        })
    }
}

/// Measurements of all phases of a kind. The kinds alternate, so that a busy machine affects all of them.
#[derive(Default)]
struct Phases {
    good: usize,
    time: Duration,
    of_other: Vec<Record>,
    of_operators: Vec<Duration>,
}

impl Phases {
    /// Adds a phase, in which the noisy account sends `load`.
    async fn run(&mut self, shop: &Deployment, load: impl Future<Output = Vec<Record>> + Send + 'static) {
        let probes = shop.load(&shop.other, true, 4);
        let ((noisy, time), of_other, of_operators) =
            tokio::join!(in_thread(load), probes.open_loop(PROBES, PHASE), shop.operate());
        self.good += goodput(&noisy);
        self.time += time;
        assert_eq!(goodput(&of_other), of_other.len(), "the other account was refused: {of_other:?}");
        self.of_other.extend(of_other);
        self.of_operators.extend(of_operators);
    }

    /// Returns the number of requests per second that succeeded.
    fn goodput(&self) -> f64 {
        f64::from(u32::try_from(self.good).unwrap()) / self.time.as_secs_f64()
    }
}

/// Runs a load in a thread of its own, so that it does not delay the other requests. Returns its records and
/// the time that it took.
async fn in_thread(load: impl Future<Output = Vec<Record>> + Send + 'static) -> (Vec<Record>, Duration) {
    let (sender, result) = oneshot::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begin = Instant::now();
        sender.send((runtime.block_on(load), begin.elapsed())).unwrap();
    });
    result.await.unwrap()
}

/// Returns the number of requests that succeeded. The others must have been refused: because too many wait,
/// or because the database did not take them in time.
fn goodput(records: &[Record]) -> usize {
    let (good, refused): (Vec<_>, Vec<_>) =
        records.iter().partition(|record| matches!(record.status, Ok(200 | 201)));
    for record in refused {
        assert_eq!((record.status, record.retry_after), (Ok(503), Some(1)), "{record:?}");
        assert!(matches!(record.code.as_deref(), Some("OVERLOADED" | "UNAVAILABLE")), "{record:?}");
    }
    good.len()
}

/// Compares ten times the load with the peak and with a quiet service, in three rounds.
async fn overload(name: &str, shop: &Deployment, is_read: bool) {
    let [mut quiet, mut peak, mut tenfold] = <[Phases; 3]>::default();
    for _ in 0..3 {
        quiet.run(shop, async { Vec::new() }).await;
        let load = shop.load(&shop.noisy, is_read, if shop.database.is_some() { 128 } else { 64 });
        peak.run(shop, {
            let load = load.clone();
            async move { load.closed_loop(PHASE).await }
        })
        .await;
        if shop.database.is_some() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
            let rate = peak.goodput() as u32 * 10;
            let load = load.over(1_000);
            tenfold.run(shop, async move { load.open_loop(rate, PHASE).await }).await;
        } else {
            let load = load.over(640);
            tenfold.run(shop, async move { load.closed_loop(PHASE).await }).await;
        }
    }
    let [refused, at_once] = shop.refusals().await;
    let [of_quiet, of_other] = [&quiet, &tenfold].map(|phases| latency_at(0.99, &phases.of_other));
    tenfold.of_operators.sort_unstable();
    let of_operators = tenfold.of_operators[tenfold.of_operators.len() * 99 / 100];
    println!(
        "{name}, {}: {:.0} per second at the peak, {:.0} under ten times the load; {refused} refused, \
         {at_once} at once; p99 of the other account {of_quiet:.1?} and {of_other:.1?}, of operators \
         {of_operators:.1?}",
        if is_read { "reads" } else { "writes" },
        peak.goodput(),
        tenfold.goodput()
    );
    assert!(tenfold.goodput() >= 0.8 * peak.goodput(), "{name}: goodput");
    assert!(at_once * 100 >= refused * 99, "{name}: refusals");
    assert!(of_other <= 10 * of_quiet, "{name}: other account");
    assert!(of_operators <= Duration::from_millis(100), "{name}: operators");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "compares times, and needs the machine for itself: scripts/test --long"]
async fn ten_times_the_load_costs_neither_goodput_nor_other_accounts_nor_operators() {
    let slow = Deployment::on_slow_database().await;
    for (is_read, millis) in [(true, 200), (false, 150)] {
        slow.slow_down(is_read, millis).await;
        overload("slow database", &slow, is_read).await;
    }
    drop(slow);
    for (name, shop) in [("one process", Deployment::on_sqlite().await), ("split", Deployment::split().await)]
    {
        for is_read in [true, false] {
            overload(name, &shop, is_read).await;
        }
    }
}
