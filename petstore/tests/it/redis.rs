//! Rate limits that gateways share in a Redis: exactness, faults, and operation.

mod cluster;
mod costs;
mod exactness;
mod failover;
mod installations;
mod operation;
mod outages;
mod strangers;
mod tls;

use std::time::Duration;

use petstore_testkit::{Client, Server, TestShop, eventually};

/// Timeout of a change on a machine that is busy with other work. The promise is within 1 s for an outage,
/// and within 2 s for a recovery.
const NOTICED_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until readiness calls the limiter of a process `expected`: `ok` or `degraded`.
pub(crate) async fn limiter_is(server: &Server, expected: &str) {
    eventually(NOTICED_TIMEOUT, async || {
        let ready = server.admin().get("/readyz").await;
        if ready.json()["parts"]["limiter"] == expected { Ok(()) } else { Err(format!("{ready:?}")) }
    })
    .await;
}

/// Waits until readiness calls the limiter of every gateway `expected`.
pub(crate) async fn all_limiters_are(shop: &TestShop, expected: &str) {
    for admin in shop.admins() {
        eventually(NOTICED_TIMEOUT, async || {
            let ready = admin.get("/readyz").await;
            let is_as_expected = ready.status() == 200 && ready.json()["parts"]["limiter"] == expected;
            if is_as_expected { Ok(()) } else { Err(format!("{ready:?}")) }
        })
        .await;
    }
}

/// Checks what every gateway says of an outage of Redis.
pub(crate) async fn all_limiters_say(shop: &TestShop, expected: &str, consequence: &str) {
    for admin in shop.admins() {
        let cause = &admin.get("/readyz").await.json()["causes"]["limiter"];
        assert_eq!(cause["cause"], expected, "{cause}");
        assert!(cause["message"].as_str().is_some_and(|it| it.contains(consequence)), "{cause}");
    }
}

/// Waits until Redis decides on the client's requests. It may not decide on each of them: if its answer is
/// late, the gateway decides locally.
async fn is_counted_in_redis(client: &Client) {
    eventually(NOTICED_TIMEOUT, async || {
        let answer = client.get("/v1/pets").await;
        let is_decision = matches!(answer.status(), 200 | 429);
        if is_decision && answer.find("x-ratelimit-scope").is_none() {
            Ok(())
        } else {
            Err(format!("{answer:?}"))
        }
    })
    .await;
}
