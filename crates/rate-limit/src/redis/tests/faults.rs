//! Tests of faults of Redis. Each is an outage of the limiter with the right cause, is noticed in time, and
//! is over when Redis is back.

use std::{
    mem::discriminant,
    time::{Duration, Instant},
};

use petstore_test_servers::{
    eventually,
    faults::{Fault, Proxy},
    servers::{RedisCluster, RedisOptions, RedisServer},
};
use tokio::io::AsyncWriteExt;

use super::{AMPLE, NEVER, PATIENT_TIMEOUT, named, patient_limiter, settings};
use crate::{
    Decision, LimitKey, LimiterUnavailable, RateLimiter, RedisCallError, RedisDeadlines, RedisLimiter,
    RedisSettings, conformance_tests::key,
};

/// Returns a limiter as in production: in Redis's own time, and with the default deadlines.
fn limiter(url: &str) -> RedisLimiter {
    named(RedisLimiter::new(settings([&url.to_owned()])).unwrap())
}

async fn take(limiter: &RedisLimiter, limit_key: &LimitKey) -> Result<Decision, LimiterUnavailable> {
    limiter.take(limit_key, AMPLE, NEVER).await
}

/// Asserts that every decision fails for that reason. On a busy machine one may be late, but not all.
async fn fails_in_time(limiter: &RedisLimiter, fault: RedisCallError) {
    let mut fastest = Duration::MAX;
    for account in 1..=5 {
        let start = Instant::now();
        assert_eq!(take(limiter, &key(account, "any")).await, Err(LimiterUnavailable));
        fastest = fastest.min(start.elapsed());
    }
    // The deadline is 60 ms, to which a busy machine adds.
    assert!(fastest < Duration::from_millis(500), "{fastest:?}");
    // A first connection may take longer than a decision waits for it.
    eventually(PATIENT_TIMEOUT, async || {
        let _ = take(limiter, &key(1, "any")).await;
        let last = limiter.last_error();
        let is_fault = last.as_ref().is_some_and(|last| discriminant(last) == discriminant(&fault));
        if is_fault { Ok(()) } else { Err(format!("{last:?}")) }
    })
    .await;
    assert!(!format!("{fault} {fault:?}").contains("letmein"));
}

async fn works_again(limiter: &RedisLimiter) {
    eventually(PATIENT_TIMEOUT, async || {
        take(limiter, &key(1, "any")).await.map_err(|_| format!("{:?}", limiter.last_error()))
    })
    .await;
}

#[tokio::test]
async fn an_absent_or_killed_server_is_unavailable() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    redis.kill9().await;
    let limiter = limiter(&redis.url());
    fails_in_time(&limiter, RedisCallError::Unreachable("".into())).await;
    redis.restart().await;
    works_again(&limiter).await;
    redis.kill9().await;
    fails_in_time(&limiter, RedisCallError::Unreachable("".into())).await;
    assert!(limiter.last_error().unwrap().to_string().contains("Connection refused"));
}

#[tokio::test]
async fn a_stopped_server_is_unavailable() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = limiter(&redis.url());
    works_again(&limiter).await;
    redis.pause();
    fails_in_time(&limiter, RedisCallError::TimedOut).await;
    redis.resume();
    works_again(&limiter).await;
}

#[tokio::test]
async fn a_slow_or_silent_network_is_unavailable() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let proxy = Proxy::to(redis.address()).await;
    let limiter = limiter(&redis.url_at(proxy.address()));
    for fault in [Fault::delay_ms(200), Fault::Blackhole] {
        proxy.set(Fault::None).await;
        works_again(&limiter).await;
        proxy.set(fault).await;
        fails_in_time(&limiter, RedisCallError::TimedOut).await;
    }
    proxy.set(Fault::None).await;
    works_again(&limiter).await;
}

#[tokio::test]
async fn a_full_memory() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = limiter(&redis.url());
    works_again(&limiter).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]).await;
    fails_in_time(&limiter, RedisCallError::OutOfMemory("".into())).await;
    assert_eq!(limiter.probe().await, Err(LimiterUnavailable));
    let (one, other) = (key(1, "any"), key(2, "any"));
    let at_once = [&one, &other, &one, &one, &other].map(|limit_key| take(&limiter, limit_key));
    let answers = futures_util::future::join_all(at_once).await;
    assert!(answers.iter().all(Result::is_err), "what was not written is not admitted: {answers:?}");
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]).await;
    works_again(&limiter).await;
}

#[tokio::test]
async fn a_replica() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = limiter(&redis.url());
    works_again(&limiter).await;
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]).await;
    fails_in_time(&limiter, RedisCallError::ReadOnly("".into())).await;
    assert_eq!(limiter.probe().await, Err(LimiterUnavailable));
    redis.cli(&["REPLICAOF", "NO", "ONE"]).await;
    works_again(&limiter).await;
}

#[tokio::test]
async fn a_wrong_password_is_unavailable_until_it_is_corrected() {
    let redis =
        RedisServer::start(RedisOptions { requirepass: Some("another"), ..RedisOptions::default() }).await;
    let limiter = limiter(&format!("redis://:letmein@{}", redis.address()));
    fails_in_time(&limiter, RedisCallError::Denied).await;
    redis.cli(&["ACL", "SETUSER", "default", ">letmein"]).await;
    works_again(&limiter).await;

    let without = self::limiter(&format!("redis://{}", redis.address()));
    fails_in_time(&without, RedisCallError::Denied).await;
}

/// Returns the rights of the guide's user, such as `+get`; those for a Cluster too.
fn rights_of_the_guide() -> Vec<&'static str> {
    let guide = include_str!("../../../../../docs/running.md");
    let line = guide.lines().find(|line| line.starts_with("ACL SETUSER")).expect("a user");
    let also = guide.lines().find(|line| line.contains("+cluster|slots")).expect("rights for a Cluster");
    let of_cluster = also.split('`').filter(|word| word.starts_with('+') && *word != "+select");
    line.split(' ').filter(|word| word.starts_with(['~', '+'])).chain(of_cluster).collect()
}

async fn allow(redis: &RedisServer, rights: &[&str]) {
    let user = ["ACL", "SETUSER", "limits", "reset", "on", ">letmein", "-@all"];
    redis.cli(&[user.as_slice(), rights].concat()).await;
}

#[tokio::test]
async fn the_rights_of_the_guide_are_enough_and_a_missing_one_is_told() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let rights = rights_of_the_guide();
    let limiter = limiter(&format!("redis://limits:letmein@{}", redis.address()));
    for missing in ["+evalsha", "+time", "+get", "+set", "~pet:*"] {
        let others: Vec<_> = rights.iter().copied().filter(|right| *right != missing).collect();
        assert!(others.len() + 1 == rights.len(), "{missing} is not among {rights:?}");
        allow(&redis, &others).await;
        fails_in_time(&limiter, RedisCallError::NotPermitted("".into())).await;
        let told = limiter.last_error().unwrap();
        assert!(told.is_refusal() && told.to_string().contains("lacks a right"), "{missing}: {told}");
        allow(&redis, &rights).await;
        works_again(&limiter).await;
    }
    assert_eq!(limiter.probe().await, Ok(false), "the eviction policy is known");
    assert!(rights.contains(&"+del"), "for records that are over: {rights:?}");
}

#[tokio::test]
async fn the_rights_of_the_guide_are_enough_in_a_cluster() {
    let cluster = RedisCluster::start(3).await;
    for node in cluster.nodes() {
        allow(node, &rights_of_the_guide()).await;
    }
    let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("://", "://limits:letmein@")).collect();
    let limiter = named(RedisLimiter::new(settings(&urls)).unwrap());
    works_again(&limiter).await;
    for account in 1..=20 {
        eventually(PATIENT_TIMEOUT, async || {
            take(&limiter, &key(account, "any")).await.map_err(|_| format!("{:?}", limiter.last_error()))
        })
        .await;
    }
}

#[tokio::test]
async fn a_refusal_has_the_words_of_redis() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = limiter(&format!("redis://{}/99", redis.address()));
    fails_in_time(&limiter, RedisCallError::Refused("".into())).await;
    let told = limiter.last_error().unwrap().to_string();
    assert!(told.contains("DB index is out of range"), "{told}");
}

#[tokio::test]
async fn a_server_that_is_not_redis_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let limiter = limiter(&format!("redis://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            std::mem::forget(stream); // the connection stays open
        }
    });
    fails_in_time(&limiter, RedisCallError::Protocol).await;
}

#[tokio::test]
async fn a_single_url_of_a_cluster_is_unavailable() {
    let cluster = RedisCluster::start(3).await;
    let limiter = limiter(&cluster.urls()[0]);
    let mut seen = Vec::new();
    for account in 1..20 {
        if take(&limiter, &key(account, "any")).await.is_err() {
            seen.extend(limiter.last_error());
        }
    }
    assert!(seen.contains(&RedisCallError::Cluster), "{seen:?}");
}

#[tokio::test]
async fn an_unreachable_cluster_node_affects_only_its_own_accounts() {
    let mut cluster = RedisCluster::start(3).await;
    for node in cluster.nodes() {
        // Nodes that consider another one failed no longer serve any client.
        node.cli(&["CONFIG", "SET", "cluster-node-timeout", "60000"]).await;
    }
    cluster.is_ok().await;
    // Ample for calls that wait for no other: one that has to wait for the node is still refused.
    let deadlines = RedisDeadlines::all(Duration::from_secs(2));
    let settings = RedisSettings { deadlines, ..settings(&cluster.urls()) };
    let limiter = named(RedisLimiter::new(settings).unwrap());
    works_again(&limiter).await;
    cluster.node(0).pause();
    let answers = futures_util::future::join_all(
        (1..=60).map(async |account| take(&limiter, &key(account, "any")).await),
    )
    .await;
    let decided = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!((20..60).contains(&decided), "{decided} of 60");
    cluster.node(0).resume();
    cluster.is_ok().await;
    for account in 1..=60 {
        eventually(PATIENT_TIMEOUT, async || {
            take(&limiter, &key(account, "any")).await.map_err(|_| format!("{:?}", limiter.last_error()))
        })
        .await;
    }
}

#[tokio::test]
async fn a_foreign_value_under_a_key_affects_only_its_caller() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (limiter, _) = patient_limiter(&[redis.url()]);
    for command in [&["LPUSH", "pet:live-test:{7}", "x"], &["SET", "pet:live-test:{8}", "x"]] {
        redis.cli(command).await;
    }
    let answers = futures_util::future::join_all(
        (1..=40).map(async |account| (account, take(&limiter, &key(account, "any")).await)),
    )
    .await;
    for (account, answer) in answers {
        assert_eq!(answer.is_err(), [7, 8].contains(&account), "account {account}");
    }
    assert_eq!(limiter.last_error(), Some(RedisCallError::WrongType));
    assert_eq!(redis.cli(&["LRANGE", "pet:live-test:{7}", "0", "-1"]).await, "x", "it is left as it was");
}

/// Tests with default deadlines, while other work keeps this thread busy for longer than a decision may take.
#[tokio::test]
async fn a_delay_of_this_process_is_no_failure_of_redis() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let limiter = limiter(&redis.url());
    works_again(&limiter).await; // and is connected
    let busy = tokio::spawn(async {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(20));
            tokio::task::yield_now().await;
        }
    });
    for account in 1..=3 {
        take(&limiter, &key(account, "any")).await.expect("Redis has answered");
    }
    busy.await.unwrap();
}
