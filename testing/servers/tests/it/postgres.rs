//! Tests of a real PostgreSQL.

use std::time::Duration;

use petstore_test_servers::{
    eventually,
    servers::{Database, PostgresOptions, PostgresServer},
};
use tokio::time::timeout;

#[tokio::test]
async fn each_test_has_its_own_database() {
    let postgres = PostgresServer::shared().await;
    let (one, other) = tokio::join!(postgres.database(), postgres.database());
    one.psql("CREATE TABLE pet (name text)").await;
    one.psql("INSERT INTO pet VALUES ('Rex')").await;
    let refusal = other.try_psql("SELECT * FROM pet").await.unwrap_err();
    assert!(refusal.contains("does not exist"), "{refusal}");

    let copy = postgres.database_like(&one).await;
    one.remove().await;
    assert_eq!(copy.psql("SELECT name, length(name) FROM pet").await, "Rex|3");
}

#[tokio::test]
async fn terminating_the_backends_of_a_database_leaves_the_others_alone() {
    let postgres = PostgresServer::shared().await;
    let (mine, theirs) = (postgres.database().await, postgres.database().await);
    let sleeps = |database: &Database| {
        let database = database.clone();
        tokio::spawn(async move { database.try_psql("SELECT pg_sleep(30)").await })
    };
    let backend = |database: &Database| {
        let name = database.name();
        format!(
            "FROM pg_stat_activity \
             WHERE datname = '{name}' AND state = 'active' AND backend_type = 'client backend'"
        )
    };
    let (cut, spared) = (sleeps(&mine), sleeps(&theirs));
    for database in [&mine, &theirs] {
        eventually(Duration::from_secs(10), async || {
            let busy = postgres.psql(&format!("SELECT count(*) {}", backend(database))).await;
            if busy == "1" { Ok(()) } else { Err(format!("{busy} are busy in {}", database.name())) }
        })
        .await;
    }
    assert_eq!(mine.terminate_backends().await, 1);
    let refusal = cut.await.unwrap().unwrap_err();
    assert!(refusal.contains("terminating connection due to administrator command"), "{refusal}");
    // It sleeps until its statement is cancelled: a backend that was terminated would report that instead.
    let cancelled = postgres.psql(&format!("SELECT pg_cancel_backend(pid) {}", backend(&theirs))).await;
    assert_eq!(cancelled, "t", "it was cut off as well");
    let refusal = spared.await.unwrap().unwrap_err();
    assert!(refusal.contains("canceling statement due to user request"), "{refusal}");
}

#[tokio::test]
async fn the_server_terminates_the_backends_of_all_databases() {
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    assert_eq!(postgres.terminate_backends().await, 0);
    let database = postgres.database().await;
    let cut = tokio::spawn(async move { database.try_psql("SELECT pg_sleep(30)").await });
    eventually(Duration::from_secs(5), async || match postgres.terminate_backends().await {
        0 => Err("nobody was connected".to_owned()),
        _ => Ok(()),
    })
    .await;
    assert!(cut.await.unwrap().is_err());
}

#[tokio::test]
async fn a_password_is_required_and_settings_are_applied() {
    let options = PostgresOptions {
        password: Some("letmein"),
        fsync: true,
        settings: vec![("max_connections", "7")],
        ..PostgresOptions::default()
    };
    let postgres = PostgresServer::start(options).await;
    assert_eq!(postgres.url(), format!("postgres://postgres:letmein@{}/postgres", postgres.address()));
    let settings = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings \
                    WHERE name IN ('fsync', 'max_connections', 'server_version_num')";
    let settings = postgres.psql(settings).await;
    assert!(settings.starts_with("on 7 1"), "{settings}");
    let auth = postgres.psql("SELECT DISTINCT auth_method FROM pg_hba_file_rules").await;
    assert_eq!(auth, "scram-sha-256");
}

#[tokio::test]
async fn committed_rows_outlive_a_crash_an_immediate_stop_and_a_restart() {
    let mut postgres = PostgresServer::start(PostgresOptions::default()).await;
    let database = postgres.database().await;
    let address = postgres.address();
    database.psql("CREATE TABLE pet (id int)").await;

    let session = tokio::spawn({
        let database = database.clone();
        async move { database.try_psql("SELECT pg_sleep(30)").await }
    });
    database.psql("INSERT INTO pet VALUES (1)").await;
    postgres.kill9().await;
    assert!(session.await.unwrap().is_err(), "a backend survived");
    assert!(database.try_psql("SELECT 1").await.unwrap_err().contains("Connection refused"));
    postgres.restart().await;

    database.psql("INSERT INTO pet VALUES (2)").await;
    postgres.stop_immediate().await;
    postgres.restart().await;

    database.psql("INSERT INTO pet VALUES (3)").await;
    postgres.restart().await;
    assert_eq!(database.psql("SELECT string_agg(id::text, ',' ORDER BY id) FROM pet").await, "1,2,3");
    assert_eq!(postgres.address(), address);
}

#[tokio::test]
async fn a_paused_server_answers_only_once_resumed() {
    let mut postgres = PostgresServer::start(PostgresOptions::default()).await;
    let database = postgres.database().await;
    // Its backend exists already when the server is stopped: so the backend has to be stopped as well.
    let mut session = tokio::spawn({
        let database = database.clone();
        async move { database.try_psql("SELECT pg_sleep(3)").await }
    });
    eventually(Duration::from_secs(5), async || {
        let busy = postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'").await;
        if busy == "1" { Ok(()) } else { Err(busy) }
    })
    .await;
    postgres.pause();
    assert!(timeout(Duration::from_secs(4), &mut session).await.is_err(), "a stopped backend answers");
    postgres.resume();
    assert_eq!(session.await.unwrap(), Ok(String::new()));
    assert_eq!(database.psql("SELECT 1").await, "1");
}
