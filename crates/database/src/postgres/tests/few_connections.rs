//! A core that gets fewer connections than it has groups of them.

use futures_util::future::{join_all, try_join_all};
use petstore_test_servers::servers::Database as TestDatabase;

use super::*;
use crate::test_support::row;

/// Role that is no superuser, whom no limit would bind.
const ROLE: &str = "few";

/// Starts a server with a database that belongs to that role.
async fn new_database_of_a_role() -> (PostgresServer, TestDatabase, DatabaseUrl) {
    let options = PostgresOptions {
        settings: vec![("max_connections", "10"), ("superuser_reserved_connections", "5")],
        ..PostgresOptions::default()
    };
    let server = PostgresServer::start(options).await;
    let database = server.database().await;
    server
        .psql(&format!("CREATE ROLE {ROLE} LOGIN; ALTER DATABASE {} OWNER TO {ROLE}", database.name()))
        .await;
    let url = url(&database.url().replace("postgres://postgres", &format!("postgres://{ROLE}")));
    open(&url).await.database.close().await;
    (server, database, url)
}

/// Makes calls of every group, one after the other and many at once.
async fn is_served(items: &Items, how: &str) {
    for round in 0..3 {
        let (found, added) = (items.find(1).await, items.add("a").await);
        assert!(found.is_ok() && added.is_ok(), "{how}, {round}: {found:?} {added:?}");
    }
    let (finds, adds, reads, writes) = tokio::join!(
        try_join_all((0..20).map(|_| items.find(1))),
        try_join_all((0..20).map(|_| items.add("b"))),
        try_join_all((0..20).map(|_| items.database.ping())),
        try_join_all((0..20).map(|_| items.database.insert_rows(vec![row("c")]))),
    );
    let failure = finds.err().or(adds.err()).or(reads.err()).or(writes.err());
    assert!(failure.is_none(), "{how}: {failure:?}");
}

#[tokio::test]
async fn calls_of_every_kind_are_served_on_the_connections_that_there_are() {
    let (server, database, url) = new_database_of_a_role().await;
    let mut others = Vec::new();
    for setting in ["ROLE few", &format!("DATABASE {}", database.name()), "server"] {
        for limit in [1, 2, 3] {
            let how = format!("{setting} with {limit}");
            if setting == "server" {
                others.clear();
                petstore_test_servers::eventually(RECOVERY_TIMEOUT, async || {
                    let options: PgConnectOptions = url.to_string().parse().unwrap();
                    let made = join_all((0..5 - limit).map(|_| options.connect())).await;
                    others = made.into_iter().collect::<Result<Vec<_>, _>>().map_err(|it| it.to_string())?;
                    Ok(())
                })
                .await;
            } else {
                server.psql(&format!("ALTER {setting} CONNECTION LIMIT {limit}")).await;
            }
            let items = petstore_test_servers::eventually(RECOVERY_TIMEOUT, async || {
                let database = Database::open(&url, &SCHEMA, AS_IT_IS).await;
                database.map(Items::new).map_err(|error| format!("{error:?}"))
            })
            .await;
            is_served(&items, &how).await;
            let used = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'petstore'";
            let used: i32 = server.psql(used).await.parse().unwrap();
            assert!((1..=limit).contains(&used), "{how}: {used}");
            items.database.close().await;
        }
        if setting != "server" {
            server.psql(&format!("ALTER {setting} CONNECTION LIMIT -1")).await;
        }
    }
}

#[tokio::test]
async fn a_small_pool_of_pgbouncer_serves_calls_of_every_kind() {
    let (_items, database) = new_on_postgres().await;
    for setting in ["default_pool_size = 1", "default_pool_size = 2", "max_client_conn = 2"] {
        let pooler = PgBouncerServer::start_with(PostgresServer::shared().await.address(), setting).await;
        let items = open(&url(&database.url_at(pooler.address()))).await;
        is_served(&items, setting).await;
    }
}
