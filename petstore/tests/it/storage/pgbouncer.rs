//! PgBouncer in session mode between the core and PostgreSQL.

use std::time::Duration;

use petstore_testkit::{
    eventually,
    servers::{PgBouncerServer, PostgresServer},
};
use serde_json::json;

use crate::{
    key_without_limits,
    pets::{created, ids},
    petstore, serve,
};

/// Timeout of the recovery on a busy machine. On an idle one it takes at most 2 s.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_service_works_behind_pgbouncer_and_survives_its_restart() {
    let postgres = PostgresServer::shared().await;
    let mut pooler = PgBouncerServer::start(postgres.address()).await;
    let url = postgres.database().await.url_at(pooler.address());
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", &url);
    let server = installation.start(&serve(&[])).await;
    let client = server.client(&key_without_limits(&installation).await);
    let rex = json!({"name": "Rex", "categoryId": 1});

    let mut acknowledged = Vec::new();
    for round in 0..3 {
        acknowledged.push(created(&client.post("/v1/pets", &rex).await));
        // Opens every connection.
        client.sends_at_once(20, &format!("/v1/pets/{}", acknowledged[round])).await;
        pooler.restart().await;
        let recovered = eventually(RECOVERY_TIMEOUT, async || match client.post("/v1/pets", &rex).await {
            answer if answer.status() == 201 => Ok(created(&answer)),
            answer => Err(format!("{answer:?}")),
        });
        acknowledged.push(recovered.await);
    }
    assert_eq!(ids(&client.get("/v1/pets?limit=100").await), acknowledged);
}
