//! Tests of a real Redis.

use std::time::{Duration, Instant};

use petstore_test_servers::servers::{RedisOptions, RedisServer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

#[tokio::test]
async fn the_command_line_sets_and_reads() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    assert_eq!(redis.url(), format!("redis://{}", redis.address()));
    assert_eq!(redis.cli(&["SET", "pet", "Rex the dog"]).await, "OK");
    assert_eq!(redis.cli(&["GET", "pet"]).await, "Rex the dog");
    assert_eq!(redis.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await, "OK");
    assert_eq!(redis.cli(&["SCRIPT", "FLUSH"]).await, "OK");
    assert_eq!(redis.cli(&["FLUSHALL"]).await, "OK");
    assert_eq!(redis.cli(&["EXISTS", "pet"]).await, "0");
    let refusal = redis.try_cli(&["INCR"]).await.unwrap_err();
    assert!(refusal.contains("wrong number of arguments"), "{refusal}");
}

#[tokio::test]
async fn a_password_is_asked_for() {
    let redis =
        RedisServer::start(RedisOptions { requirepass: Some("letmein"), ..RedisOptions::default() }).await;
    assert_eq!(redis.cli(&["PING"]).await, "PONG");
    assert_eq!(redis.url(), format!("redis://:letmein@{}", redis.address()));
    let mut stranger = TcpStream::connect(redis.address()).await.unwrap();
    assert!(ping(&mut stranger).await.starts_with("-NOAUTH"));
}

#[tokio::test]
async fn a_full_memory_refuses_writes() {
    let options = RedisOptions {
        maxmemory: Some("100kb"), // an empty one has more
        maxmemory_policy: Some("noeviction"),
        ..RedisOptions::default()
    };
    let redis = RedisServer::start(options).await;
    let refusal = redis.try_cli(&["SET", "pet", "Rex"]).await.unwrap_err();
    assert!(refusal.starts_with("OOM"), "{refusal}");
}

#[tokio::test]
async fn a_paused_server_answers_only_once_resumed() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let mut client = TcpStream::connect(redis.address()).await.unwrap();
    assert_eq!(ping(&mut client).await, "+PONG\r\n");
    redis.pause();
    let mut answer = std::pin::pin!(ping(&mut client));
    assert!(timeout(Duration::from_millis(100), &mut answer).await.is_err(), "a stopped process answers");
    redis.resume();
    assert_eq!(answer.await, "+PONG\r\n");
}

#[tokio::test]
async fn a_crash_loses_everything_without_an_append_only_file() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    redis.cli(&["SET", "pet", "Rex"]).await;
    redis.kill9().await;
    assert!(redis.try_cli(&["PING"]).await.unwrap_err().contains("Connection refused"));
    redis.restart().await;
    assert_eq!(redis.cli(&["EXISTS", "pet"]).await, "0");
}

#[tokio::test]
async fn an_append_only_file_outlives_a_crash_and_a_restart() {
    let options = RedisOptions { appendonly: true, ..RedisOptions::default() };
    let mut redis = RedisServer::start(options).await;
    let (address, pid) = (redis.address(), redis.pid());
    redis.cli(&["SET", "pet", "Rex"]).await;
    redis.kill9().await;
    redis.restart().await;
    assert_eq!(redis.cli(&["GET", "pet"]).await, "Rex", "after kill -9");
    redis.restart().await;
    assert_eq!(redis.cli(&["GET", "pet"]).await, "Rex", "after an orderly restart");
    assert_eq!(redis.address(), address);
    assert_ne!(redis.pid(), pid);
}

#[tokio::test]
async fn a_dropped_server_is_gone_even_when_it_was_paused() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let address = redis.address();
    redis.pause();
    let start = Instant::now();
    drop(redis);
    assert!(start.elapsed() < Duration::from_secs(5), "it had to be killed twice");
    assert!(TcpStream::connect(address).await.is_err());
}

async fn ping(stream: &mut TcpStream) -> String {
    stream.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(answer.get(..count).unwrap()).into_owned()
}
