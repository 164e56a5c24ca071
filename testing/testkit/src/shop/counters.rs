//! Counters of a shop's requests.

use std::time::{Duration, SystemTime};

use petstore_rate_limit::RedisDeadlines;
use petstore_settings::LimiterSettings;
use petstore_test_servers::servers::{RedisCluster, RedisOptions, RedisServer};

/// Variable with the limiter of shops that do not choose one: `redis` or `cluster`, each with its own
/// servers; otherwise the one in the process.
pub(super) const VARIABLE: &str = "PETSTORE_TEST_LIMITER";

/// Maximum duration of a test that counts by Redis's own time.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);
const DAY_SECS: u64 = 86_400;

/// Deadline that no call exceeds, even on a busy machine.
const REDIS_TIMEOUT: Duration = Duration::from_secs(10);

/// Redis, or nodes of a Cluster, in which the gateways of a shop count.
#[derive(Clone, Debug)]
pub struct SharedCounters {
    urls: Vec<String>,
    deadlines: RedisDeadlines,
    is_by_clock: bool,
}

impl SharedCounters {
    /// Counts by Redis's own time, and with the deadlines of production.
    pub fn at(url: &str) -> Self {
        Self { urls: vec![url.to_owned()], deadlines: RedisDeadlines::default(), is_by_clock: false }
    }

    /// Counts by Redis's own time, with a deadline that is met on a busy machine.
    pub fn patiently_at(url: &str) -> Self {
        Self { deadlines: RedisDeadlines::all(REDIS_TIMEOUT), ..Self::at(url) }
    }

    /// Counts at the nodes of a Cluster by their own time, with a deadline that is met on a busy machine.
    pub fn patiently_at_nodes(urls: &[String]) -> Self {
        Self { urls: urls.to_vec(), deadlines: RedisDeadlines::all(REDIS_TIMEOUT), is_by_clock: false }
    }

    /// Counts by the shop's clock, which the test moves, with a deadline that is met on a busy machine.
    pub fn by_clock(urls: &[String]) -> Self {
        Self { urls: urls.to_vec(), deadlines: RedisDeadlines::all(REDIS_TIMEOUT), is_by_clock: true }
    }

    /// Waits for the next UTC day if this one ends too soon for a test that counts by Redis's own time. A
    /// test cannot move that time, and its quota would be reset in the middle.
    pub(super) async fn wait_for_a_whole_test(&self) {
        if self.is_by_clock {
            return;
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("later than 1970").as_secs();
        let left = Duration::from_secs(DAY_SECS - now % DAY_SECS);
        if left < TEST_TIMEOUT {
            tokio::time::sleep(left).await;
        }
    }

    pub(super) fn apply(&self, settings: &mut LimiterSettings) {
        settings.redis_url = self.urls.iter().map(|url| url.parse().expect("a URL of Redis")).collect();
        settings.redis_deadlines = self.deadlines;
        settings.redis_by_process_clock = self.is_by_clock;
    }
}

/// Servers that belong to one shop.
#[derive(Debug)]
#[expect(dead_code, reason = "they are kept to be dropped with the shop")]
pub(super) enum OwnServers {
    Redis(RedisServer),
    Cluster(RedisCluster),
}

/// Starts the servers that the variable names.
pub(super) async fn by_variable() -> Option<(OwnServers, SharedCounters)> {
    match std::env::var(VARIABLE).as_deref() {
        Ok("redis") => {
            let redis = RedisServer::start(RedisOptions::default()).await;
            let counters = SharedCounters::by_clock(&[redis.url()]);
            Some((OwnServers::Redis(redis), counters))
        }
        Ok("cluster") => {
            let cluster = RedisCluster::start(3).await;
            let counters = SharedCounters::by_clock(&cluster.urls());
            Some((OwnServers::Cluster(cluster), counters))
        }
        Ok(other) if other != "in-process" => panic!("{VARIABLE} is {other}, which is no limiter"),
        Ok(_) | Err(_) => None,
    }
}
