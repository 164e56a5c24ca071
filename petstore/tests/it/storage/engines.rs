//! Operation of the store, on SQLite and on PostgreSQL.

use std::{path::Path, time::Duration};

use petstore_testkit::{Engine, Installation, Server, eventually, servers::PostgresServer};
use serde_json::json;

use crate::{key_of_new_account, pets::created, petstore, petstore_on, serve};

#[tokio::test]
async fn pets_keys_and_cursors_survive_a_restart_and_a_crash() {
    for engine in Engine::ALL {
        let installation = petstore_on(engine).await;
        let server = installation.start(&serve(&[])).await;
        let key = key_of_new_account(&installation).await;
        let client = server.client(&key);
        created(
            &client
                .post("/v1/pets", &json!({"name": "Rex 🐕", "categoryId": i64::MIN, "status": "sold"}))
                .await,
        );
        created(&client.post("/v1/pets", &json!({"name": "Tom", "categoryId": i64::MAX})).await);
        let cursor = client.get("/v1/pets?limit=1").await.header("x-next-cursor").to_owned();
        let before = client.get("/v1/pets").await.json();
        let exit = server.terminate().await;
        assert_eq!(exit.code, Some(0), "{exit:?}");

        let server = installation.start(&serve(&[])).await;
        let client = server.client(&key);
        assert_eq!(client.get("/v1/pets").await.json(), before, "{engine:?}");
        assert_eq!(client.get(&format!("/v1/pets?cursor={cursor}")).await.json(), json!([before[1]]));
        let id = created(&client.post("/v1/pets", &json!({"name": "Kit", "categoryId": 1})).await);
        assert!(id > 2, "an id is never assigned again: {id}");
        server.crash().await;

        let server = installation.start(&serve(&[])).await;
        let answer = server.client(&key).get(&format!("/v1/pets/{id}")).await;
        assert_eq!(answer.assert_status(200).json()["name"], "Kit", "{engine:?}");
    }
}

#[tokio::test]
async fn two_cores_that_start_at_once_share_one_new_store() {
    for engine in Engine::ALL {
        let installation = petstore_on(engine).await;
        let (one, other) = tokio::join!(core(&installation), core(&installation));
        let key = key_of_new_account(&installation).await;
        for core in [&one, &other] {
            let url = format!("http://{}", core.address("gRPC"));
            let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
            let gateway =
                installation.start(&[["gateway", "--core-url", &url].as_slice(), &ports].concat()).await;
            gateway.ready().await;
            created(&gateway.client(&key).post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
        }
    }
}

#[tokio::test]
async fn no_migrate_leaves_the_schema_to_its_own_command() {
    for engine in Engine::ALL {
        let installation = petstore_on(engine).await;
        let flags = serve(&["--no-migrate"]);
        let refusal = installation.run(&flags).await;
        assert_eq!(refusal.code, Some(1), "{refusal:?}");
        assert!(refusal.stderr.contains("petstore migrate up"), "{engine:?}: {refusal:?}");
        assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
        installation.start(&flags).await;
    }
}

#[tokio::test]
async fn a_migration_that_waits_for_a_lock_names_its_holder_and_continues_afterwards() {
    let database = PostgresServer::shared().await.database().await;
    let holder = tokio::spawn({
        let database = database.clone();
        async move { database.psql("SELECT pg_advisory_lock(8099007544119226981), pg_sleep(4)").await }
    });
    eventually(Duration::from_secs(20), async || {
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = \
                    (SELECT oid FROM pg_database WHERE datname = current_database())";
        if database.psql(held).await == "1" { Ok(()) } else { Err("it does not hold it yet".to_owned()) }
    })
    .await;
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", &database.url());
    let migrated = installation.run(&["migrate", "up"]).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    assert_eq!(migrated.stderr.lines().count(), 1, "{migrated:?}");
    assert!(migrated.stderr.contains("another session holds a lock: process "), "{migrated:?}");
    assert!(migrated.stderr.contains(", psql, of user postgres"), "{migrated:?}");
    holder.await.unwrap();
}

#[tokio::test]
async fn the_first_start_logs_one_line_of_the_new_store() {
    let installation = petstore();
    let exit = installation.start(&serve(&[])).await.terminate().await;
    let lines: Vec<_> = exit.stderr.lines().filter(|line| line.contains("schema")).collect();
    assert_eq!(lines.len(), 1, "{exit:?}");
    let changes = installation.json(&["migrate", "status"]).await.as_array().map_or(0, Vec::len);
    assert!(lines[0].contains(&format!("created the store, schema {changes}")), "{exit:?}");
    assert!(!exit.stderr.contains("migration"), "{exit:?}");
    let again = installation.start(&serve(&[])).await.terminate().await;
    assert!(!again.stderr.contains("schema"), "{again:?}");
}

#[tokio::test]
async fn a_killed_migration_is_completed_by_the_next() {
    for engine in Engine::ALL {
        let complete = petstore_on(engine).await;
        assert_eq!(complete.run(&["migrate", "up"]).await.code, Some(0));
        let took = complete.run(&["migrate", "status"]).await.took;
        for part in 1..=10 {
            let database = match engine {
                Engine::Sqlite => None,
                Engine::Postgres => Some(PostgresServer::shared().await.database().await),
            };
            let folder = tempfile::tempdir().unwrap();
            let url = database.map_or_else(
                || format!("sqlite://{}", folder.path().join("petstore.db").display()),
                |database| database.url(),
            );
            // At ten times between its start and its end.
            let moment = format!("{:.3}", (took * part / 5).as_secs_f64());
            let killed = Installation::of("timeout").with_variable("PETSTORE_DATABASE_URL", &url);
            killed.run(&["--signal=KILL", &moment, env!("CARGO_BIN_EXE_petstore"), "migrate", "up"]).await;

            let next = petstore().with_variable("PETSTORE_DATABASE_URL", &url);
            let completed = next.run(&["migrate", "up"]).await;
            assert_eq!(completed.code, Some(0), "{engine:?}, killed after {moment} s: {completed:?}");
            let server = next.start(&serve(&["--no-migrate"])).await;
            let client = server.client(&key_of_new_account(&next).await);
            created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
        }
    }
}

#[tokio::test]
async fn a_database_server_has_no_first_key() {
    let installation = petstore_on(Engine::Postgres).await;
    let server = installation.start(&serve(&[])).await;
    assert!(server.stdout().contains("store  postgres://postgres@127.0.0.1:"), "{}", server.stdout());
    assert!(!Path::new(installation.folder()).join("data").exists());
}

async fn core(installation: &Installation) -> Server {
    installation.start(&["core", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"]).await
}
