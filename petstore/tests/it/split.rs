//! Core and gateway as two processes.

use std::time::{Duration, Instant};

use petstore_testkit::{Answer, Client, Engine, Installation, Server, eventually, free_port};
use serde_json::json;

use crate::{authentication::within_five_seconds, key_of_new_account, pets::created, petstore, petstore_on};

/// Time within which the service must notice that a part is unreachable or back.
const NOTICED: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_gateway_serves_what_a_core_keeps() {
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
    assert_eq!(readiness(&shop.core).await.json(), json!({"status": "ok", "parts": {"database": "ok"}}));
}

#[tokio::test]
async fn a_gateway_without_a_core_is_not_ready_and_says_that_the_core_is_away() {
    let installation = petstore();
    let (core, key) = core_with_a_key(&installation).await;
    let address = core.address("gRPC").to_string();
    core.terminate().await;
    let gateway = start_gateway(&installation, &address).await;
    readiness(&gateway).await.assert_status(503);
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
    eventually(NOTICED, async || match readiness(&gateway).await {
        ready if ready.status() == 200 => Ok(()),
        unready => Err(format!("{unready:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_known_key_is_still_trusted_while_the_core_is_away() {
    let shop = Split::open().await;
    let address = shop.core.address("gRPC").to_string();
    let known = shop.gateway.client(&shop.key);
    known.get("/v1/pets").await.assert_status(200);
    shop.core.crash().await;

    let answer = known.get("/v1/pets").await;
    answer.assert_error(503, "UNAVAILABLE");
    assert_eq!(answer.rate().limit, 60, "the account's own limit, so the key was known: {answer:?}");
    known.get("/v1/nothing").await.assert_error(404, "ROUTE_NOT_FOUND");
    known.get("/v1/pets?limit=0").await.assert_error(400, "INVALID_PARAMETER");
    assert_eq!(known.get("/v1/nothing").await.rate().remaining, 55, "they counted");

    let _core = start_core(&shop.installation, &address).await;
    first_with(200, &known).await;
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

pub(crate) struct Split {
    pub(crate) installation: Installation,
    pub(crate) core: Server,
    pub(crate) gateway: Server,
    pub(crate) key: String,
}

impl Split {
    pub(crate) async fn open() -> Self {
        Self::open_on(Engine::of_this_run()).await
    }

    pub(crate) async fn open_on(engine: Engine) -> Self {
        Self::of(petstore_on(engine).await).await
    }

    pub(crate) async fn of(installation: Installation) -> Self {
        let (core, key) = core_with_a_key(&installation).await;
        let gateway = start_gateway(&installation, &core.address("gRPC").to_string()).await;
        let split = Self { installation, core, gateway, key };
        eventually(NOTICED, async || match readiness(&split.gateway).await {
            ready if ready.status() == 200 => Ok(()),
            unready => Err(format!("{unready:?}")),
        })
        .await;
        split
    }
}

async fn core_with_a_key(installation: &Installation) -> (Server, String) {
    // No other test takes this port while the core is down, so it can restart there.
    let core = start_core(installation, &format!("127.0.0.1:{}", free_port())).await;
    let key = key_of_new_account(installation).await;
    (core, key)
}

async fn start_core(installation: &Installation, address: &str) -> Server {
    installation.start(&["core", "--grpc-addr", address, "--admin-addr", "127.0.0.1:0"]).await
}

async fn start_gateway(installation: &Installation, core: &str) -> Server {
    let core = format!("http://{core}");
    let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    installation.start(&[["gateway", "--core-url", &core].as_slice(), &ports].concat()).await
}

async fn readiness(server: &Server) -> Answer {
    server.admin().get("/readyz").await
}

/// Sends a few requests a second, so that the minute's requests last.
async fn first_with(status: u16, client: &Client) -> Answer {
    eventually(NOTICED, async || {
        let answer = client.get("/v1/pets").await;
        if answer.status() == status {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        Err(format!("{answer:?}"))
    })
    .await
}
