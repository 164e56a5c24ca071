//! A read asks the core while the limiter decides, if it will probably be admitted.

use std::time::Duration;

use petstore_testkit::{
    SharedCounters, TestShop, eventually,
    servers::{RedisOptions, RedisServer},
};
use serde_json::json;

use crate::{calls_answered, pets::created, redis::all_limiters_are};

/// Timeout of the retries. Each outage that is noticed delays the next try by up to ten seconds.
const RETRY_TIMEOUT: Duration = Duration::from_mins(2);

#[tokio::test]
async fn refused_reads_make_no_call_of_the_core() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 1, &[]).await;
    let client = shop.client_with(5, 1_000).await;
    for _ in 0..2 {
        let before = gets(&shop).await;
        let answers = client.sends(25, "/v1/pets/404").await;
        assert!(answers[..5].iter().all(|answer| answer.status() == 404), "{answers:?}");
        assert!(answers[5..].iter().all(|answer| answer.status() == 429), "{answers:?}");
        assert_eq!(gets(&shop).await - before, 5);
        shop.advance(Duration::from_hours(1)); // also past the ban for ignored refusals
    }
}

/// Tests while Redis is stopped: the limiter refuses after a while; but by then, the core has been called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_with_quota_left_calls_the_core_before_the_limiter_decides() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let shop =
        TestShop::open_on(&SharedCounters::at(&redis.url()), 1, &["--on-redis-failure", "closed"]).await;
    let client = shop.client_with(1_000, 10_000).await;
    all_limiters_are(&shop, "ok").await;
    // A decision of Redis that arrives late is a refusal, also before the outage.
    let id = eventually(RETRY_TIMEOUT, async || {
        match client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await {
            added if added.status() == 201 => Ok(created(&added)),
            late => Err(format!("{late:?}")),
        }
    })
    .await;
    let path = format!("/v1/pets/{id}");
    // If the machine is so busy that the outage is noticed before the request arrives, or a call is counted
    // after its answer, the test tries again.
    eventually(RETRY_TIMEOUT, async || {
        let admitted = client.get(&path).await;
        if admitted.status() != 200 {
            return Err(format!("{admitted:?}"));
        }
        let before = gets(&shop).await;
        redis.pause();
        let refused = client.get(&path).await;
        let asked = gets(&shop).await - before;
        let again = client.get(&path).await;
        let asked_again = gets(&shop).await - before - asked;
        redis.resume();
        for answer in [refused, again] {
            answer.assert_error(503, "LIMITER_UNAVAILABLE");
        }
        // The second is not called early: the request before it was refused.
        let calls = (asked, asked_again);
        if calls == (1, 0) { Ok(()) } else { Err(format!("{calls:?} calls of the core")) }
    })
    .await;
}

/// Asserts that one of them is admitted; one more may have been early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_concurrent_reads_with_one_request_left_make_at_most_two_calls() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 1, &[]).await;
    let client = shop.client_with(40, 1_000).await;
    client.sends(39, "/v1/pets/404").await;
    let before = gets(&shop).await;
    let answers = client.sends_at_once(300, "/v1/pets/404").await;
    assert_eq!(answers.iter().filter(|answer| answer.status() == 404).count(), 1, "{answers:?}");
    let cost = gets(&shop).await - before;
    assert!((1..=2).contains(&cost), "{cost} reads");
}

/// Returns the number of calls for single pets that the core has answered.
async fn gets(shop: &TestShop) -> u64 {
    calls_answered(&shop.admin(), "GetPet").await
}
