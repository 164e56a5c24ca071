use petstore_test_servers::{
    Logged,
    servers::{PostgresOptions, PostgresServer},
};
use tracing::Level;

use super::*;
use crate::test_support::{MIGRATE, SCHEMA};

/// Opens the database with a replica.
async fn open(url: &str, replica: &str) -> Database {
    let (primary, replica) = (url.parse().unwrap(), replica.parse().unwrap());
    let database = Database::open(&primary, &SCHEMA, MIGRATE).await.unwrap();
    database.with_replicas(&primary, &[replica]).unwrap()
}

#[tokio::test]
async fn a_server_that_is_not_a_replica_of_the_primary_is_not_used_and_each_reason_is_logged_once() {
    let [primary, foreign] = [
        PostgresServer::start(PostgresOptions::default()).await,
        PostgresServer::start(PostgresOptions::default()).await,
    ];
    let database = primary.database().await;
    assert_eq!(foreign.database().await.name(), database.name());
    let copy_of_foreign = PostgresServer::start_replica(&foreign).await;
    for other in [&foreign, &copy_of_foreign] {
        let opened = open(&database.url(), &database.url_at(other.address())).await;
        let looked_at = opened.primary().await.unwrap();
        let (replica, logged) = (&opened.replicas.all[0], Logged::of("replicas"));
        replica.check(&looked_at).await;
        assert!(!replica.is_usable());
        assert_eq!(logged.levels(), [Level::WARN]);
        for (page, expected) in [(1, vec![Level::WARN]), (23, Vec::new())] {
            replica.fail(&DbErr::Custom(format!("invalid page in block {page}")));
            assert_eq!(logged.levels(), expected);
        }
        replica.set_fault(None);
        assert!(replica.is_usable());
        assert_eq!(logged.levels(), [Level::INFO]);
    }
}

#[tokio::test]
async fn damage_of_a_replica_is_none_of_the_database() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let opened = open(&database.url(), &database.url_at(replica.address())).await;
    let damage = "DO $$ BEGIN RAISE SQLSTATE 'XX001'; END $$";
    for (connections, is_damaged) in [(&opened.replicas.all[0].connections, false), (&opened.reader, true)] {
        connections.query(Statement::from_string(DbBackend::Postgres, damage)).await.unwrap_err();
        assert_eq!(opened.health.is_damaged.load(Ordering::Relaxed), is_damaged);
    }
}
