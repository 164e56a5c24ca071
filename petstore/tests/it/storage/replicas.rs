//! Behaviour of a store with a replica.

use std::time::Duration;

use petstore_testkit::{
    Server, eventually,
    servers::{PostgresOptions, PostgresServer},
};
use serde_json::json;

use crate::{
    key_of_new_account,
    pets::{created, ids},
    petstore, serve,
};

#[tokio::test]
async fn lists_come_from_the_replica_and_a_new_pet_is_found_at_once() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let mut replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let installation = petstore()
        .with_variable("PETSTORE_DATABASE_URL", &database.url())
        .with_variable("PETSTORE_REPLICA_URL", &database.url_at(replica.address()));
    let server = installation.start(&serve(&[])).await;
    let client = server.client(&key_of_new_account(&installation).await);
    uses(&server, 1).await;

    replica.psql("SELECT pg_wal_replay_pause()").await;
    let id = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    client.get(&format!("/v1/pets/{id}")).await.assert_status(200);
    assert_eq!(ids(&client.get("/v1/pets").await), [id], "the last page is confirmed");

    replica.kill9().await;
    assert_eq!(ids(&client.get("/v1/pets").await), [id], "the list comes from the store's own server");
    uses(&server, 0).await;
    replica.restart().await;
    uses(&server, 1).await;
    assert_eq!(ids(&client.get("/v1/pets").await), [id]);
}

#[tokio::test]
async fn a_replica_of_sqlite_is_refused_at_the_start() {
    let refused = petstore().run(&["serve", "--replica-url", "postgres://petstore@localhost/petstore"]).await;
    refused.assert_refused(2, &["--replica-url: a replica must be a PostgreSQL database"]);
}

async fn uses(server: &Server, expected: usize) {
    let line = format!("petstore_replicas_used {expected}");
    eventually(Duration::from_secs(30), async || {
        let metrics = server.admin().get("/metrics").await;
        if metrics.text().lines().any(|shown| shown == line) { Ok(()) } else { Err(line.clone()) }
    })
    .await;
}
