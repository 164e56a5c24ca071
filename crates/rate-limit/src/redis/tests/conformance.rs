//! Conformance suite of every limiter, against Redis.

use petstore_test_servers::servers::{RedisCluster, RedisOptions, RedisServer};

use super::patient_limiter;
use crate::conformance_tests::{self, LimiterUnderTest};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_passes_the_conformance_suite() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, hand) = patient_limiter(&[redis.url()]);
    conformance_tests::suite(&LimiterUnderTest::new(limiter, move |by| hand.advance(by), 0).with_traces(1))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_on_a_unix_socket_passes_the_conformance_suite() {
    let settings = vec![("unixsocket", "redis.sock")];
    let redis = RedisServer::start(RedisOptions { settings, ..RedisOptions::default() }).await;
    let (limiter, hand) = patient_limiter(&[redis.unix_url("redis.sock")]);
    conformance_tests::suite(&LimiterUnderTest::new(limiter, move |by| hand.advance(by), 0).with_traces(1))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_passes_the_conformance_suite() {
    let cluster = RedisCluster::start(3).await;
    let (limiter, hand) = patient_limiter(&cluster.urls());
    conformance_tests::suite(&LimiterUnderTest::new(limiter, move |by| hand.advance(by), 0).with_traces(1))
        .await;
}
