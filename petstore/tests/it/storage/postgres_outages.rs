//! Answers while PostgreSQL is unreachable, and recovery without a restart.

use std::time::{Duration, Instant};

use petstore_testkit::{
    Answer, Client, Server, eventually,
    faults::{Fault, Proxy},
    grpc::{self, ServingStatus},
    servers::{Database, PostgresOptions, PostgresServer},
};
use serde_json::json;

use crate::{key_without_limits, pets::created, petstore, serve, split::part_is};

/// Timeout of the change. On an idle machine an outage is reported within 1.6 s and its end is noticed within
/// 2 s. Here it is enough that both happen before the deadline of a request, which would be answered 504.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(5);
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);

const SERVICES: [&str; 3] = ["", "petstore.v1.PetStore", "petstore.v1.StoreService"];

#[tokio::test]
async fn every_call_fails_fast_with_503_while_postgresql_is_down_and_recovers() {
    let mut postgres = PostgresServer::start(PostgresOptions::default()).await;
    let (server, client) = shop(&postgres.database().await).await;
    is_served(&server, &client).await;

    let start = Instant::now();
    postgres.pause();
    is_refused("frozen", &server, &client).await;
    postgres.resume();
    is_served(&server, &client).await;

    postgres.stop_immediate().await;
    is_refused("down", &server, &client).await;
    postgres.restart().await;
    is_served(&server, &client).await;

    postgres.kill9().await;
    is_refused("crashed", &server, &client).await;
    postgres.restart().await;
    is_served(&server, &client).await;
    println!("three outages took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_core_without_calls_says_why_postgresql_does_not_answer() {
    let mut postgres = PostgresServer::start(PostgresOptions::default()).await;
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", &postgres.database().await.url());
    let core =
        installation.start(&["core", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"]).await;
    postgres.stop_immediate().await;
    eventually(OUTAGE_TIMEOUT, async || {
        let log = core.stderr();
        let line = log.lines().find(|line| line.contains("the store does not answer"));
        if line.is_some_and(|line| line.contains("Connection refused")) { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test]
async fn a_proxy_without_a_server_behind_it_is_an_outage() {
    let postgres = PostgresServer::shared().await;
    let proxy = Proxy::to(postgres.address()).await;
    let url = postgres.database().await.url_at(proxy.address());
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", &url);
    let server = installation.start(&serve(&[])).await;
    let client = server.client(&key_without_limits(&installation).await);
    is_served(&server, &client).await;

    for fault in [Fault::CloseOnAccept, Fault::ResetOnAccept] {
        proxy.set(fault).await;
        proxy.reset_connections();
        is_refused(&format!("{fault:?}"), &server, &client).await;
        proxy.set(Fault::None).await;
        is_served(&server, &client).await;
    }
}

#[tokio::test]
async fn clients_do_not_notice_cut_database_connections() {
    let database = PostgresServer::shared().await.database().await;
    let (_server, client) = shop(&database).await;
    for number in 0..5 {
        let id = created(&add(&client).await);
        assert!(database.terminate_backends().await > 0, "{number}");
        client.get(&format!("/v1/pets/{id}")).await.assert_status(200);
        assert!(database.terminate_backends().await > 0, "{number}");
        created(&add(&client).await);
    }
}

#[tokio::test]
async fn reads_continue_and_acknowledged_pets_stay_while_postgresqls_disk_is_full() {
    let database = PostgresServer::shared().await.database().await;
    let (server, client) = shop(&database).await;
    let id = created(&add(&client).await);
    // The server answers as it does when a file cannot grow.
    database
        .psql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE 'could not extend file: No space left on device' \
             USING ERRCODE = 'disk_full'; END $$; \
             CREATE TRIGGER full_disk BEFORE INSERT ON pets FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    let refused = add(&client).await;
    refused.assert_error(503, "UNAVAILABLE");
    assert!(refused.retry_after() >= 1, "{refused:?}");
    assert!(!refused.text().contains("space"), "{refused:?}");
    client.get(&format!("/v1/pets/{id}")).await.assert_status(200);
    client.get("/v1/pets").await.assert_status(200);
    part_is(&server, "database", "degraded", "disk_full").await;
    database.psql("DROP TRIGGER full_disk ON pets").await;
    created(&add(&client).await);
    part_is(&server, "database", "ok", "").await;
}

/// Returns the service on this database, and a client without effective limits.
async fn shop(database: &Database) -> (Server, Client) {
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", &database.url());
    let server = installation.start(&serve(&[])).await;
    let client = server.client(&key_without_limits(&installation).await);
    (server, client)
}

async fn add(client: &Client) -> Answer {
    client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await
}

async fn is_refused(how: &str, server: &Server, client: &Client) {
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let start = Instant::now();
        let (added, listed) = tokio::join!(add(client), client.get("/v1/pets"));
        longest = longest.max(start.elapsed());
        for answer in [added, listed] {
            answer.assert_error(503, "UNAVAILABLE");
            assert!(answer.retry_after() >= 1, "{answer:?}");
        }
    }
    assert!(longest < OUTAGE_TIMEOUT, "{how}: {longest:?}");
    println!("{how}: reported after {longest:?} at most");
    let unready = server.admin().get("/readyz").await;
    assert_eq!(unready.assert_status(503).json()["parts"]["database"], "down", "{how}: {unready:?}");
    for service in SERVICES {
        health_is(server, service, ServingStatus::NotServing).await;
    }
}

async fn is_served(server: &Server, client: &Client) {
    let start = Instant::now();
    eventually(RECOVERY_TIMEOUT, async || {
        let (added, listed) = tokio::join!(add(client), client.get("/v1/pets"));
        if (added.status(), listed.status()) == (201, 200) {
            Ok(())
        } else {
            Err(format!("{added:?} {listed:?}"))
        }
    })
    .await;
    println!("served again after {:?}", start.elapsed());
    server.ready().await; // a busy machine may be late with one answer of the database
    for service in SERVICES {
        health_is(server, service, ServingStatus::Serving).await;
    }
}

async fn health_is(server: &Server, service: &str, expected: ServingStatus) {
    eventually(RECOVERY_TIMEOUT, async || match grpc::health(server.address("gRPC"), service).await {
        Ok(status) if status == expected => Ok(()),
        other => Err(format!("{service:?}: {other:?}")),
    })
    .await;
}
