//! Floods of unknown keys: their cost for the core, and the keys that remain usable.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use petstore_caller::api_key::{ApiKey, Environment};
use petstore_testkit::{Client, Plan, TestShop, eventually, raw};

use crate::calls_answered;

/// Maximum number of calls per second with which one gateway asks the core about keys.
const MAX_LOOKUP_CALLS: u128 = 200;

/// Number of keys that are used for the first time during the flood.
const FRESH_KEYS: usize = 12;

/// Time within which a key that is used for the first time is served, on a busy machine.
const FIRST_USE_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of a lookup's wait for its turn. After it the lookup is refused because too many wait.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of connections: more than could be served in time if each key had to be looked up separately.
const CONNECTIONS: usize = 250;

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_keys_from_a_thousand_addresses_locks_out_no_new_key() {
    let shop = TestShop::open_with(&["--trusted-proxy", "127.0.0.1/32"]).await;
    let address = |number: usize| format!("10.0.{}.{}", number % 1_000 / 250, number % 250);
    let flooded = flood(&shop, 4, |number| Some(address(number))).await;
    assert!(flooded.iter().all(|code| code == "INVALID_API_KEY"), "{:?}", counts(&flooded));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_keys_from_one_address_does_not_lock_out_its_neighbours() {
    let shop = TestShop::open().await;
    let flooded = flood(&shop, 4, |_| None).await;
    // Requests whose key was not judged did not count: there may be no more than the limit.
    let counted = counts(&flooded);
    let ([("INVALID_API_KEY", refused)] | [("INVALID_API_KEY", refused), ("RATE_LIMITED", _)]) = counted[..]
    else {
        panic!("{counted:?}");
    };
    assert!(refused <= 600, "{counted:?}");
}

/// Sends requests with unknown keys over many connections at once, several one after another on each, as fast
/// as they are answered. Meanwhile keys are used for the first time, all of which have to be served. Returns
/// the codes of the unknown keys' answers, except those of keys that could not be looked up.
async fn flood(
    shop: &TestShop,
    requests: usize,
    forwarded_for: impl Fn(usize) -> Option<String>,
) -> Vec<String> {
    let mut fresh = Vec::new();
    for _ in 0..FRESH_KEYS {
        fresh.push(shop.client_on(Plan::Free).await);
    }
    let target = shop.anonymous().address();
    let connections = (0..CONNECTIONS).map(|connection| {
        let mut text = String::new();
        for request in 0..requests {
            let key = ApiKey::generate(Environment::Production);
            let field = forwarded_for(connection * requests + request)
                .map(|address| format!("X-Forwarded-For: {address}\r\n"))
                .unwrap_or_default();
            let last = if request + 1 == requests { "Connection: close\r\n" } else { "" };
            write!(
                text,
                "GET /v1/pets HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n{field}{last}\r\n",
                key.expose()
            )
            .unwrap();
        }
        tokio::spawn(async move { raw::answers(&raw::exchange(target, text.as_bytes()).await) })
    });
    let (calls, start) = (calls_answered(&shop.admin(), "ResolveKeys").await, Instant::now());
    let connections: Vec<_> = connections.collect();
    let first_uses = async {
        let mut longest = Duration::ZERO;
        for client in &fresh {
            tokio::time::sleep(Duration::from_millis(100)).await; // spread over the flood
            let sent = Instant::now();
            first_use(client).await;
            longest = longest.max(sent.elapsed());
        }
        longest
    };
    let (answers, longest) = tokio::join!(join_all(connections), first_uses);
    let took = start.elapsed();
    let calls = calls_answered(&shop.admin(), "ResolveKeys").await - calls;
    let answers = answers.into_iter().flat_map(Result::unwrap);
    let codes: Vec<_> = answers.map(|answer| answer.json()["code"].as_str().unwrap().to_owned()).collect();
    // On a busy machine some may wait for too long, and get no judgement of the key.
    let counted: Vec<_> =
        codes.iter().filter(|code| !matches!(code.as_str(), "UNAVAILABLE" | "OVERLOADED")).cloned().collect();
    assert!(counted.len() * 2 > codes.len(), "{:?}", counts(&codes));
    println!(
        "{} strangers in {took:?}, {calls} calls to the core; a first use took {longest:?} at most",
        codes.len()
    );
    let most = took.as_millis() * MAX_LOOKUP_CALLS / 1_000 + 1;
    assert!(u128::from(calls) <= most, "{calls} calls in {took:?}");
    counted
}

/// Uses a key until it is served. A busy machine may be late with the core's answer, or with the turn to ask
/// for one. But every key has room in the queue: a key without room is refused at once.
async fn first_use(client: &Client) {
    eventually(FIRST_USE_TIMEOUT, async || {
        let sent = Instant::now();
        let answer = client.get("/v1/pets").await;
        let is_late = || answer.json()["code"] == "UNAVAILABLE" || sent.elapsed() >= QUEUE_TIMEOUT;
        if answer.status() == 503 && is_late() {
            return Err(format!("{answer:?}"));
        }
        answer.assert_status(200);
        Ok(())
    })
    .await;
}

fn counts(codes: &[String]) -> Vec<(&str, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for code in codes {
        *counts.entry(code.as_str()).or_default() += 1;
    }
    counts.into_iter().collect()
}
