//! Operation with a Redis that fails and recovers.

use petstore_testkit::{
    Installation, Server, eventually,
    servers::{RedisOptions, RedisServer},
};

use super::{NOTICED_TIMEOUT, limiter_is};
use crate::{first_client, metric, petstore, serve};

const GONE: &str = "rate limits are not shared";
const BACK: &str = "rate limits are shared again";

#[tokio::test]
async fn an_outage_of_redis_is_one_log_line_without_the_password() {
    let options = RedisOptions { requirepass: Some("SECRET"), ..Default::default() };
    let mut redis = RedisServer::start(options).await;
    let installation = petstore();
    let server = serve_with(&installation, &redis).await;
    let client = first_client(&installation, &server);
    limiter_is(&server, "ok").await;
    let before = logged_outages(&server).await;
    redis.kill9().await;
    limiter_is(&server, "degraded").await;
    for answer in client.sends(20, "/v1/pets").await {
        answer.assert_status(200);
    }
    redis.restart().await;
    limiter_is(&server, "ok").await;
    // A machine that stalls may make a second outage of it, but not one for each request.
    let outages = logged_outages(&server).await - before;
    assert!((1..5).contains(&outages), "{outages} outages: {}", server.stderr());
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(!format!("{exit:?}").contains("SECRET"), "{exit:?}");
}

#[tokio::test]
async fn an_eviction_policy_that_drops_counters_is_logged() {
    let options = RedisOptions { maxmemory_policy: Some("allkeys-lru"), ..Default::default() };
    let redis = RedisServer::start(options).await;
    let installation = petstore();
    let server = serve_with(&installation, &redis).await;
    eventually(NOTICED_TIMEOUT, async || {
        let log = server.stderr();
        if log.contains("set maxmemory-policy noeviction") { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Starts the service with the URL of Redis in a file.
async fn serve_with(installation: &Installation, redis: &RedisServer) -> Server {
    installation.write_secret("redis-url", &redis.url());
    installation.start(&serve(&["--redis-url-file", "redis-url"])).await
}

/// Returns the number of outages of Redis, once the log has one line for each start and each end.
async fn logged_outages(server: &Server) -> u64 {
    eventually(NOTICED_TIMEOUT, async || {
        let logged = [GONE, BACK].map(|line| count(server, line));
        let outages = metric(server, "petstore_redis_outages_total").await;
        if logged == [outages; 2] { Ok(outages) } else { Err(format!("{outages}: {}", server.stderr())) }
    })
    .await
}

fn count(server: &Server, line: &str) -> u64 {
    server.stderr().lines().filter(|written| written.contains(line)).count() as u64
}
