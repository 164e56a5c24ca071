//! The suite of every limiter.

use std::{sync::Arc, time::Duration};

use petstore_clock::{Clock, UnixMillis};
use petstore_test_servers::servers::{RedisCluster, RedisOptions, RedisServer};

use crate::limit::{
    RedisLimiter, RedisSettings,
    conformance::{self, Rig},
};

fn rig(urls: &[String]) -> Rig {
    let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
    let urls = urls.iter().map(|url| url.parse().unwrap()).collect();
    let limiter = RedisLimiter::with_clock(RedisSettings { urls }, clock, Duration::from_secs(10)).unwrap();
    Rig::new(Arc::new(limiter), move |by| hand.advance(by), 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_passes_the_suite_of_every_limiter() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    conformance::suite(&rig(&[redis.url()])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_passes_the_suite_of_every_limiter() {
    let cluster = RedisCluster::start(3).await;
    conformance::suite(&rig(&cluster.urls())).await;
}
