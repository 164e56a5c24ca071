//! Cost of decisions in Redis: `cargo bench -p petstore-rate-limit --bench redis_limiter [SECONDS]`.
//!
//! It starts a separate `redis-server`, so that generator and server share the machine. Each row is a number
//! of concurrent callers, each of which waits for its decision before it asks again, over a million accounts.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a measurement that cannot go on fails by panicking"
)]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use petstore_clock::{Clock, UnixMillis};
use petstore_rate_limit::{LimitKey, Quota, RateLimiter, RedisDeadlines, RedisLimiter, RedisSettings};
use petstore_test_servers::servers::{RedisOptions, RedisServer};

const ACCOUNTS: i64 = 1_000_000;
const PRO: Quota = Quota { per_minute: 300, per_day: 10_000 };

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let secs = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(3);
    let redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = limiter(&redis);
    memory(&redis, &limiter).await;
    println!("callers  decisions/s  p50 us  p99 us  Redis CPU-s/100k  gateway CPU-s/100k");
    for callers in [1, 4, 16, 64, 256] {
        row(&redis, &limiter, callers, Duration::from_secs(secs)).await;
    }
}

/// Uses a manual clock, so that no window ends meanwhile.
fn limiter(redis: &RedisServer) -> Arc<RedisLimiter> {
    let (clock, _) = Clock::manual(UnixMillis(1_795_200_000_000));
    let limiter = RedisLimiter::new(RedisSettings {
        urls: vec![redis.url().parse().expect("a URL")],
        key_prefix: "pet:",
        deadlines: RedisDeadlines::all(Duration::from_secs(10)),
        clock: Some(clock),
    });
    let limiter = limiter.expect("usable settings");
    limiter.set_installation("live-7Gk2xQ9d");
    Arc::new(limiter)
}

/// Lets every account send one request, and prints the memory that Redis uses for each.
async fn memory(redis: &RedisServer, limiter: &Arc<RedisLimiter>) {
    let before = info(redis, "memory", "used_memory").await;
    let senders = (0..64).map(|sender| {
        let limiter = Arc::clone(limiter);
        tokio::spawn(async move {
            for account in (sender..ACCOUNTS).step_by(64) {
                limiter.take(&limit_key(account), PRO, UnixMillis(0)).await.unwrap();
            }
        })
    });
    futures_util::future::join_all(senders).await;
    let used = info(redis, "memory", "used_memory").await - before;
    let resident = info(redis, "memory", "used_memory_rss").await;
    println!(
        "{ACCOUNTS} accounts: {} bytes each in Redis, {} MiB resident",
        used / 1e6,
        resident / 1_048_576.0
    );
    println!("MEMORY USAGE of one: {} bytes", redis.cli(&["MEMORY", "USAGE", "pet:{500000}"]).await);
}

async fn row(redis: &RedisServer, limiter: &Arc<RedisLimiter>, callers: u64, duration: Duration) {
    let cpu = async || (info(redis, "cpu", "used_cpu_").await, cpu_secs());
    let (redis_before, gateway_before) = cpu().await;
    let start = Instant::now();
    let senders = (0..callers).map(|caller| {
        let limiter = Arc::clone(limiter);
        tokio::spawn(async move {
            let (mut micros, mut account) = (Vec::new(), caller.cast_signed());
            while start.elapsed() < duration {
                account = (account * 69_069 + 362_437) % ACCOUNTS; // any distribution is sufficient
                let asked = Instant::now();
                limiter.take(&limit_key(account), PRO, UnixMillis(0)).await.unwrap();
                micros.push(asked.elapsed().as_micros());
            }
            micros
        })
    });
    let micros = futures_util::future::join_all(senders).await.into_iter().map(Result::unwrap);
    let mut micros: Vec<u128> = micros.flatten().collect();
    let elapsed = start.elapsed().as_secs_f64();
    let (redis_after, gateway_after) = cpu().await;
    micros.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a million or so")]
    let count = micros.len() as f64;
    println!(
        "{callers:7}  {:11.0}  {:6}  {:6}  {:16.2}  {:18.2}",
        count / elapsed,
        micros[micros.len() / 2],
        micros[micros.len() / 100 * 99],
        (redis_after - redis_before) / count * 1e5,
        (gateway_after - gateway_before) / count * 1e5,
    );
}

fn limit_key(account: i64) -> LimitKey {
    LimitKey::ApiKey { account_id: account, key_id: "1".into() }
}

/// Returns Redis's figure `name`, or the sum of its user and system figures if `name` ends with `_`.
async fn info(redis: &RedisServer, section: &str, name: &str) -> f64 {
    let info = redis.cli(&["INFO", section]).await;
    let is_named = |field: &str| {
        let exact = field == name;
        exact || (name.ends_with('_') && ["sys", "user"].iter().any(|end| field == format!("{name}{end}")))
    };
    let figures = info.lines().filter_map(|line| line.split_once(':')).filter(|(field, _)| is_named(field));
    figures.map(|(_, figure)| figure.trim().parse::<f64>().expect("a figure")).sum()
}

/// Returns the CPU time that this process used, in the kernel's ticks of 10 ms.
fn cpu_secs() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    [11, 12].iter().map(|index| fields[*index].parse::<f64>().expect("ticks") / 100.0).sum()
}
