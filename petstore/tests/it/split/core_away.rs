//! Answers of a gateway with a core, and without.

use std::time::{Duration, Instant};

use petstore_testkit::{Answer, Client, Engine, eventually, servers::HaproxyServer};
use serde_json::json;

use super::{NOTICED_TIMEOUT, Split, core_with_a_key, part_is, readiness, start_core, start_gateway};
use crate::{keys::within_five_seconds, metric, pets::created, petstore, petstore_on};

#[tokio::test]
async fn a_gateway_serves_the_pets_of_its_core() {
    for engine in Engine::ALL {
        serves_what_a_core_keeps(&Split::open_on(engine).await).await;
    }
}

async fn serves_what_a_core_keeps(shop: &Split) {
    let client = shop.gateway.client(&shop.key);
    let id = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": i64::MIN})).await);
    let answer = client.get(&format!("/v1/pets/{id}")).await;
    assert_eq!(answer.assert_status(200).json(), json!({"id": id, "name": "Rex", "categoryId": i64::MIN}));
    client
        .post("/v1/pets", &json!({"name": " ", "categoryId": 1}))
        .await
        .assert_error(400, "VALIDATION_FAILED");
    client.get("/v1/pets/99").await.assert_error(404, "PET_NOT_FOUND");
    assert_eq!(
        readiness(&shop.gateway).await.json(),
        json!({"status": "ok", "parts": {"core": "ok", "limiter": "ok"}})
    );
    assert_eq!(
        readiness(&shop.core).await.json(),
        json!({"status": "ok", "parts": {"database": "ok", "grpc": "ok"}})
    );
}

#[tokio::test]
async fn a_gateway_without_a_core_is_not_ready_and_answers_503() {
    let installation = petstore();
    let (core, key) = core_with_a_key(&installation).await;
    let address = core.address("gRPC").to_string();
    core.terminate().await;
    let gateway = start_gateway(&installation, &address).await;
    readiness(&gateway).await.assert_status(503);
    part_is(&gateway, "core", "down", "not_reached").await;
    gateway.admin().get("/livez").await.assert_status(200);

    let start = Instant::now();
    let answer = gateway.client(&key).get("/v1/pets").await;
    answer.assert_error(503, "UNAVAILABLE");
    assert!(answer.retry_after() >= 1, "{answer:?}");
    assert_eq!((answer.rate().limit, answer.rate().remaining), (600, 600), "nothing is counted: {answer:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    gateway.anonymous().get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");

    let _core = start_core(&installation, &address).await;
    first_with(200, &gateway.client(&key)).await;
    eventually(NOTICED_TIMEOUT, async || match readiness(&gateway).await {
        ready if ready.status() == 200 => Ok(()),
        unready => Err(format!("{unready:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_known_key_is_still_trusted_while_the_core_is_unreachable() {
    let shop = Split::open().await;
    let address = shop.core.address("gRPC").to_string();
    let known = shop.gateway.client(&shop.key);
    known.get("/v1/pets").await.assert_status(200);
    shop.core.crash().await;

    let answer = known.get("/v1/pets").await;
    answer.assert_error(503, "UNAVAILABLE");
    assert_eq!(answer.rate().limit, 60, "the account's own limit, so the key was known: {answer:?}");
    known.get("/v1/nothing").await.assert_error(404, "ROUTE_NOT_FOUND");
    let refused = known.get("/v1/pets?limit=0&cursor=x").await;
    refused.assert_error(400, "INVALID_PARAMETER");
    assert_eq!(
        refused.message(),
        "limit must be a whole number from 1 to 100; \
         cursor must be the one returned with the previous page, unchanged"
    );
    assert_eq!(known.get("/v1/nothing").await.rate().remaining, 55, "they counted");

    let _core = start_core(&shop.installation, &address).await;
    first_with(200, &known).await;
}

#[tokio::test]
async fn a_gateway_tells_a_proxy_that_answers_in_the_cores_place_from_a_core() {
    let installation = petstore();
    let (core, key) = core_with_a_key(&installation).await;
    let proxy = HaproxyServer::start_before_cores(&[(core.address("gRPC"), core.address("admin"))]).await;
    let gateway = start_gateway(&installation, &proxy.address().to_string()).await;
    part_is(&gateway, "core", "ok", "").await;
    let client = gateway.client(&key);
    client.get("/v1/pets").await.assert_status(200);

    let address = core.address("gRPC").to_string();
    let admin = core.address("admin").to_string();
    core.crash().await;
    let refused = client.get("/v1/pets").await;
    refused.assert_error(503, "UNAVAILABLE");
    assert!(refused.retry_after() >= 1, "{refused:?}");
    let body = part_is(&gateway, "core", "degraded", "unreachable").await;
    assert_eq!(body["status"], "degraded", "it still answers with an Error: {body}");
    readiness(&gateway).await.assert_status(200);
    eventually(NOTICED_TIMEOUT, async || match metric(&gateway, "petstore_core_breaker_open").await {
        1 => Ok(()),
        closed => Err(closed.to_string()),
    })
    .await;

    let core = ["core", "--grpc-addr", &address, "--admin-addr", &admin];
    let _core = installation.start(&core).await;
    part_is(&gateway, "core", "ok", "").await;
    first_with(200, &client).await;
}

#[tokio::test]
async fn a_revocation_acts_on_a_gateway_within_five_seconds() {
    let shop = Split::open().await;
    let client = shop.gateway.client(&shop.key);
    client.get("/v1/pets").await.assert_status(200);
    let id = crate::only_key_id(&shop.installation, crate::ACCOUNT).await;
    let revoked = shop.installation.run(&["key", "revoke", &id]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let refused = within_five_seconds(&client, |answer| answer.status() == 401).await;
    refused.assert_error(401, "API_KEY_REVOKED");
}

#[tokio::test]
async fn after_a_restore_with_as_many_changes_as_were_lost_a_lost_key_is_refused() {
    let shop = Split::of(petstore_on(Engine::Sqlite).await).await;
    let address = shop.core.address("gRPC").to_string();
    let file = shop.installation.folder().join("data/petstore.db");
    let new_key = ["key", "create", "--account", crate::ACCOUNT];
    shop.core.terminate().await;
    let backup = std::fs::read(&file).expect("the store");

    let core = start_core(&shop.installation, &address).await;
    let lost = shop.installation.run(&new_key).await.stdout;
    let (lost, kept) = (shop.gateway.client(lost.trim()), shop.gateway.client(&shop.key));
    first_with(200, &lost).await;
    shop.installation.json(&["account", "set-plan", crate::ACCOUNT, "--plan", "pro"]).await;
    within_five_seconds(&kept, |answer| answer.rate().limit == 300).await;
    first_with(200, &lost).await;
    let exit = core.terminate().await;
    // SQLite would replay a remaining log over the backup.
    assert!(!file.with_extension("db-wal").exists(), "the store was not closed: {exit:?}");

    std::fs::write(&file, backup).expect("the store is restored");
    for _ in 0..2 {
        assert_eq!(shop.installation.run(&new_key).await.code, Some(0));
    }
    let _core = start_core(&shop.installation, &address).await;
    let refused = within_five_seconds(&lost, |answer| answer.status() == 401).await;
    refused.assert_error(401, "INVALID_API_KEY");
    let is_of_the_backup = |answer: &Answer| answer.status() == 200 && answer.rate().limit == 60;
    within_five_seconds(&kept, is_of_the_backup).await;
}

/// Sends a few requests a second, so that the minute's requests last.
async fn first_with(status: u16, client: &Client) -> Answer {
    eventually(NOTICED_TIMEOUT, async || {
        let answer = client.get("/v1/pets").await;
        if answer.status() == status {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        Err(format!("{answer:?}"))
    })
    .await
}
