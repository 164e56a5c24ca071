//! Bans that outlive the process that imposed them, hold on every gateway, and can be changed by operators.

use std::time::Duration;

use petstore_testkit::servers::{RedisOptions, RedisServer};
use petstore_testkit::{Answer, Client, Installation, Plan, SharedCounters, TestShop, eventually};
use serde_json::Value;

use crate::{petstore, serve};

/// Time within which a change by an operator or another gateway acts on a busy machine; the promise is 5
/// seconds.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval between requests, so that a minute's requests last.
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_ban_and_its_lifting_act_on_every_gateway_without_redis() {
    let shop = TestShop::open_apart(2).await;
    let client = shop.client_with(1, 1_000_000).await;
    provoke_a_ban(&shop, &client).await;
    for at in on_every_gateway(&shop, &client) {
        first_with("API_KEY_BANNED", &at).await;
    }
    shop.lift_ban(&client).await;
    for at in on_every_gateway(&shop, &client) {
        first_without("API_KEY_BANNED", &at).await;
    }
    shop.ban(&client, Duration::from_hours(1)).await;
    for at in on_every_gateway(&shop, &client) {
        let banned = first_with("API_KEY_BANNED", &at).await;
        assert_eq!(
            banned["message"].as_str().map(|text| text.contains("2026-11-20T11:00:01Z")),
            Some(true),
            "{banned}"
        );
    }
}

#[tokio::test]
async fn with_redis_a_ban_holds_on_every_gateway_and_survives_restarts() {
    let settings = vec![("appendfsync", "always")]; // otherwise the last second may be lost, as documented
    let options = RedisOptions { appendonly: true, settings, ..Default::default() };
    let mut redis = RedisServer::start(options).await;
    let counters = SharedCounters::by_clock(&[redis.url()]);
    let shop = TestShop::open_on(&counters, 3, &[]).await;
    let client = shop.client_with(1, 1_000_000).await;
    provoke_a_ban(&shop, &client).await;
    for at in on_every_gateway(&shop, &client) {
        at.get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
    }
    eventually(CHANGE_TIMEOUT, async || match shop.bans().await {
        1 => Ok(()),
        number => Err(format!("{number} bans")),
    })
    .await;
    redis.kill9().await;
    redis.restart().await;
    let shop = shop.reopen(&counters).await;
    client.at(shop.gateways()[0]).get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
}

#[tokio::test]
async fn with_bans_switched_off_no_key_is_banned_and_limits_stay() {
    let shop = TestShop::open_with(&["--bans", "off"]).await;
    let client = shop.client_with(1, 1_000_000).await;
    shop.ban(&client, Duration::from_hours(1)).await;
    client.get("/v1/pets").await.assert_status(200);
    client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    shop.advance(Duration::from_secs(2));
    client.sends(300, "/v1/pets").await.last().unwrap().assert_error(429, "RATE_LIMITED");
    assert_eq!(client.get("/v1/usage").await.json()["strikes"], 0);
}

#[tokio::test]
async fn a_ban_survives_a_crash_and_lasts_until_an_operator_lifts_it() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let key = key_of_small_account(&installation).await;
    provoke_a_ban_in_real_time(&server.client(&key)).await;
    let ban = the_ban(&installation).await;
    assert_eq!(ban["account"], "small", "{ban}");
    server.crash().await;

    let server = installation.start(&serve(&[])).await;
    server.client(&key).get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
    let id = ban["keyId"].as_str().unwrap();
    installation.json(&["ban", "lift", id]).await;
    first_without("API_KEY_BANNED", &server.client(&key)).await;
    assert_eq!(bans(&installation).await, Vec::<Value>::new());
    installation.json(&["ban", "add", id, "--for", "1h"]).await;
    first_with("API_KEY_BANNED", &server.client(&key)).await;
}

#[tokio::test]
async fn with_redis_operators_list_add_and_lift_bans_in_the_database_alone() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let installation = petstore();
    let server = installation.start(&serve(&["--redis-url", &redis.url()])).await;
    let client = server.client(&key_of_small_account(&installation).await);
    client.get("/v1/pets").await.assert_status(200);
    let id = crate::only_key_id(&installation, "small").await;

    installation.json(&["ban", "add", &id, "--for", "1h"]).await;
    first_with("API_KEY_BANNED", &client).await;
    let listed = bans(&installation).await;
    assert_eq!((&listed[0]["keyId"], &listed[0]["account"]), (&id.as_str().into(), &"small".into()));
    installation.json(&["ban", "lift", &id]).await;
    first_without("API_KEY_BANNED", &client).await;
    assert_eq!(bans(&installation).await, Vec::<Value>::new());
}

#[tokio::test]
async fn with_redis_a_ban_that_a_gateway_imposed_is_listed_and_lifted_also_after_a_restart() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let installation = petstore();
    let server = installation.start(&serve(&["--redis-url", &redis.url()])).await;
    let key = key_of_small_account(&installation).await;
    provoke_a_ban_in_real_time(&server.client(&key)).await;
    let ban = the_ban(&installation).await;
    assert_eq!((&ban["account"], &ban["origin"]), (&"small".into(), &"limiter".into()), "{ban}");
    server.terminate().await;

    installation.json(&["ban", "lift", ban["keyId"].as_str().unwrap()]).await; // no gateway is notified now
    let server = installation.start(&serve(&["--redis-url", &redis.url()])).await;
    let answer = server.client(&key).get("/v1/pets").await;
    assert_ne!(answer.json()["code"], "API_KEY_BANNED", "Redis brings nothing back: {answer:?}");
}

#[tokio::test]
async fn bans_are_imposed_listed_and_lifted_while_redis_is_unreachable() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let installation = petstore();
    let server = installation.start(&serve(&["--redis-url", &redis.url()])).await;
    let client = server.client(&key_of_small_account(&installation).await);
    redis.kill9().await;
    crate::redis::limiter_is(&server, "degraded").await;
    provoke_a_ban_in_real_time(&client).await;
    let ban = the_ban(&installation).await;
    assert_eq!(ban["origin"], "limiter", "{ban}");
    installation.json(&["ban", "lift", ban["keyId"].as_str().unwrap()]).await;
    first_without("API_KEY_BANNED", &client).await;

    installation.json(&["ban", "add", ban["keyId"].as_str().unwrap(), "--for", "1h"]).await;
    first_with("API_KEY_BANNED", &client).await;
    redis.restart().await; // without its data
    crate::redis::limiter_is(&server, "ok").await;
    for _ in 0..3 {
        client.get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
    }
}

#[tokio::test]
async fn a_ban_imposed_while_the_core_is_unreachable_holds_and_is_reported_later() {
    let installation = petstore();
    let core = ["core", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    let first = installation.start(&core).await;
    let address = first.address("gRPC").to_string();
    let key = key_of_small_account(&installation).await;
    let url = format!("http://{address}");
    let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    let gateway = installation.start(&[["gateway", "--core-url", &url].as_slice(), &ports].concat()).await;
    let client = gateway.client(&key);
    eventually(2 * CHANGE_TIMEOUT, async || match client.get("/v1/nothing").await {
        known if known.status() == 404 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    first.crash().await;
    provoke_a_ban_in_real_time(&client).await;
    assert_eq!(bans(&installation).await, Vec::<Value>::new());
    let core = ["core", "--grpc-addr", &address, "--admin-addr", "127.0.0.1:0"];
    let _core = installation.start(&core).await;
    eventually(2 * CHANGE_TIMEOUT, async || match bans(&installation).await.len() {
        1 => Ok(()),
        number => Err(format!("{number} bans")),
    })
    .await;
    client.get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
}

/// Ignores 429 until the key, whose account may send one request a minute, is banned.
async fn provoke_a_ban(shop: &TestShop, client: &Client) {
    client.sends(2, "/v1/pets").await;
    shop.advance(Duration::from_secs(1));
    client.sends(101, "/v1/pets").await.last().unwrap().assert_error(429, "API_KEY_BANNED");
}

/// Provokes a ban where the clock cannot be moved. With Redis the ban may come later than with the 101st
/// counted request: if Redis answers too late, the gateway decides locally and counts separately.
async fn provoke_a_ban_in_real_time(client: &Client) {
    let is_banned = |answer: &Answer| answer.status() == 429 && answer.json()["code"] == "API_KEY_BANNED";
    client.sends(2, "/v1/nothing").await;
    tokio::time::sleep(Duration::from_millis(1_050)).await; // the second that is forgiven after a 429
    let too_few = client.sends(99, "/v1/nothing").await;
    assert!(!too_few.iter().any(is_banned), "{:?}", too_few.last());
    for _ in 0..300 {
        if is_banned(&client.get("/v1/nothing").await) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // further forgiven seconds pass
    }
    panic!("400 requests after a 429, and no ban: {:?}", client.get("/v1/nothing").await);
}

fn on_every_gateway(shop: &TestShop, client: &Client) -> Vec<Client> {
    shop.gateways().into_iter().map(|gateway| client.at(gateway)).collect()
}

async fn first_with(code: &str, client: &Client) -> Value {
    eventually(CHANGE_TIMEOUT, async || {
        let answer = client.get("/v1/pets").await;
        if answer.status() == 429 && answer.json()["code"] == code {
            return Ok(answer.json());
        }
        tokio::time::sleep(REQUEST_INTERVAL).await;
        Err(format!("{answer:?}"))
    })
    .await
}

async fn first_without(code: &str, client: &Client) {
    eventually(CHANGE_TIMEOUT, async || {
        let answer = client.get("/v1/pets").await;
        if answer.status() == 200 || answer.json()["code"] != code {
            return Ok(());
        }
        tokio::time::sleep(REQUEST_INTERVAL).await;
        Err(format!("{answer:?}"))
    })
    .await;
}

/// Returns the only ban, once it is listed.
async fn the_ban(installation: &Installation) -> Value {
    eventually(CHANGE_TIMEOUT, async || match <[Value; 1]>::try_from(bans(installation).await) {
        Ok([ban]) => Ok(ban),
        Err(bans) => Err(format!("{bans:?}")),
    })
    .await
}

/// Returns a key of the new account `small`, which may send one request a minute.
async fn key_of_small_account(installation: &Installation) -> String {
    let plan = ["--plan", "enterprise", "--per-minute", "1", "--per-day", "1000000"];
    installation.json(&[["account", "create", "small"].as_slice(), &plan].concat()).await;
    let key = installation.json(&["key", "create", "--account", "small"]).await;
    key["apiKey"].as_str().expect("a key").to_owned()
}

async fn bans(installation: &Installation) -> Vec<Value> {
    installation.json(&["ban", "list"]).await["bans"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_change_of_plan_acts_on_every_gateway_and_keeps_what_was_used() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 3, &[]).await;
    let account = shop.account_on(Plan::Free).await;
    let client = shop.client_of(&account).await;
    for at in on_every_gateway(&shop, &client) {
        at.sends(5, "/v1/pets").await;
    }
    shop.set_plan(&account, Plan::Pro).await;
    for at in on_every_gateway(&shop, &client) {
        let minute = eventually(CHANGE_TIMEOUT, async || {
            let minute = at.get("/v1/usage").await.json()["minute"].clone(); // uses no quota
            tokio::time::sleep(REQUEST_INTERVAL).await;
            if minute["limit"] == 300 { Ok(minute) } else { Err(minute.to_string()) }
        })
        .await;
        assert_eq!((&minute["used"], &minute["remaining"]), (&15.into(), &285.into()));
    }
}

#[tokio::test]
async fn revocation_expiry_and_rotation_act_on_every_gateway_and_keep_what_was_used() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), 3, &[]).await;
    let account = shop.account_on(Plan::Pro).await;
    let (old, expiring) =
        (shop.client_of(&account).await, shop.client_expiring(&account, Duration::from_mins(30)).await);
    for client in [&old, &expiring] {
        for at in on_every_gateway(&shop, client) {
            at.get("/v1/pets").await.assert_status(200);
        }
    }
    let new = shop.rotate(&old, Duration::from_secs(20)).await;
    let used = new.get("/v1/pets").await;
    assert_eq!(used.assert_status(200).rate().remaining, 300 - 7, "{used:?}");
    for client in [&old, &new] {
        for at in on_every_gateway(&shop, client) {
            at.get("/v1/pets").await.assert_status(200);
        }
    }
    assert_eq!(new.get("/v1/usage").await.json()["minute"]["used"], 13);
    let refused = async |client: &Client, code| {
        for at in on_every_gateway(&shop, client) {
            eventually(CHANGE_TIMEOUT, async || {
                let answer = at.get("/v1/pets").await;
                tokio::time::sleep(REQUEST_INTERVAL).await;
                if answer.status() == 401 { Ok(answer) } else { Err(format!("{answer:?}")) }
            })
            .await
            .assert_error(401, code);
        }
    };
    shop.revoke(&new).await;
    refused(&new, "API_KEY_REVOKED").await;
    shop.advance(Duration::from_mins(30));
    refused(&expiring, "API_KEY_EXPIRED").await;
    refused(&old, "API_KEY_EXPIRED").await;
}
