//! Answers of a gateway while the core hangs, and the criteria of a hang.

use std::time::{Duration, Instant};

use petstore_testkit::{
    Answer, Client, eventually,
    servers::{PostgresOptions, PostgresServer},
};
use serde_json::json;

use super::{Split, part_is, readiness};
use crate::{metric, pets::created, petstore};

/// Bound of the calls. A call to a core that hangs fails within 1.2 s, and 3 s later calls fail within 20 ms,
/// on an idle machine. On a busy one it is enough that the first is below the 5 s of a call's deadline, and
/// the others below the 1.1 s of a call to a core that is not yet known to hang.
const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(4);
const LATER_CALL_TIMEOUT: Duration = Duration::from_millis(900);
const DETECTION_TIMEOUT: Duration = Duration::from_secs(3);
/// Time within which a core that answers again is called again. On an idle machine it is a second.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a line in the log, which is written shortly after.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);
const GONE: &str = "the core does not answer: calls to it fail";
const CAME_BACK: &str = "the core answers again";

#[tokio::test]
async fn calls_to_a_hung_core_fail_fast_and_recover_when_it_resumes() {
    let shop = Split::open().await;
    let known = shop.gateway.client(&shop.key);
    let id = created(&add(&known).await.0);

    let stopped = Instant::now();
    shop.core.signal("STOP").await;
    let mut first = vec![list(&known).await];
    let found_out = stopped.elapsed();
    first.extend([list(&known).await, add(&known).await]);
    for (answer, took) in &first {
        assert_unavailable(answer);
        assert!(*took < FIRST_CALL_TIMEOUT, "{took:?}");
    }
    tokio::time::sleep(DETECTION_TIMEOUT.saturating_sub(stopped.elapsed())).await;
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        for (answer, took) in [list(&known).await, add(&known).await] {
            assert_unavailable(&answer);
            longest = longest.max(took);
        }
    }
    assert!(longest < LATER_CALL_TIMEOUT, "{longest:?}");
    part_is(&shop.gateway, "core", "degraded", "unreachable").await;
    readiness(&shop.gateway).await.assert_status(200);
    assert_eq!(metric(&shop.gateway, "petstore_core_breaker_open").await, 1);
    let log = eventually(LOG_TIMEOUT, async || match shop.gateway.stderr() {
        log if log.contains(GONE) => Ok(log),
        log => Err(log),
    })
    .await;
    // After 2 s the gateway's request for changes times out, which is logged.
    if found_out < Duration::from_millis(1_500) {
        assert!(!log.contains("accounts changed"), "one line for one outage: {log}");
    }

    shop.core.signal("CONT").await;
    let resumed = Instant::now();
    is_served_again(&known, &format!("/v1/pets/{id}")).await;
    let first: Vec<_> = first.iter().map(|(_, took)| took).collect();
    println!("given up after {first:?}, then {longest:?} at most; back after {:?}", resumed.elapsed());
    let outages = eventually(LOG_TIMEOUT, async || {
        let log = shop.gateway.stderr();
        let logged = [GONE, CAME_BACK].map(|line| log.matches(line).count() as u64);
        let outages = metric(&shop.gateway, "petstore_core_outages_total").await;
        let is_open = metric(&shop.gateway, "petstore_core_breaker_open").await == 1;
        if logged == [outages; 2] && !is_open {
            Ok(outages)
        } else {
            Err(format!("{outages} outages: {log}"))
        }
    })
    .await;
    // A machine that stalls may make a second outage of it, but not one for each call that failed.
    assert!((1..5).contains(&outages), "{outages} outages");
}

#[tokio::test]
async fn a_new_key_fails_and_recovers_as_fast_as_a_known_one() {
    let shop = Split::open().await;
    shop.core.signal("STOP").await;
    let fresh = shop.gateway.client(&shop.key);
    let (answer, took) = list(&fresh).await;
    assert_unavailable(&answer);
    assert!(took < FIRST_CALL_TIMEOUT, "{took:?}");
    shop.core.signal("CONT").await;
    is_served_again(&fresh, "/v1/pets").await;
}

#[tokio::test]
async fn a_core_with_a_hung_database_is_not_considered_hung() {
    let mut postgres = PostgresServer::start(PostgresOptions::default()).await;
    let database = postgres.database().await;
    let shop = Split::of(petstore().with_variable("PETSTORE_DATABASE_URL", &database.url())).await;
    let known = shop.gateway.client(&shop.key);
    known.get("/v1/pets").await.assert_status(200);
    postgres.pause();
    let (answer, took) = list(&known).await;
    assert_unavailable(&answer);
    assert!(took > Duration::from_secs(1), "the core itself gives its database up: {took:?}");
    assert_unavailable(&list(&known).await.0);
    known.get("/v1/pets?limit=0").await.assert_error(400, "INVALID_PARAMETER");
    part_is(&shop.gateway, "core", "degraded", "database_unreachable").await;
    part_is(&shop.core, "database", "down", "unreachable").await;
    postgres.resume();
    part_is(&shop.core, "database", "ok", "").await;
    part_is(&shop.gateway, "core", "ok", "").await;
    assert_eq!(metric(&shop.gateway, "petstore_core_breaker_open").await, 0);
    assert_eq!(metric(&shop.gateway, "petstore_core_outages_total").await, 0);
}

async fn list(client: &Client) -> (Answer, Duration) {
    let start = Instant::now();
    (client.get("/v1/pets").await, start.elapsed())
}

async fn add(client: &Client) -> (Answer, Duration) {
    let start = Instant::now();
    (client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await, start.elapsed())
}

fn assert_unavailable(answer: &Answer) {
    answer.assert_error(503, "UNAVAILABLE");
    assert!(answer.retry_after() >= 1, "{answer:?}");
}

/// Sends a few requests a second, so that the minute's requests last.
async fn is_served_again(client: &Client, path: &str) {
    eventually(RECOVERY_TIMEOUT, async || {
        let answer = client.get(path).await;
        if answer.status() == 200 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        Err(format!("{answer:?}"))
    })
    .await;
}
