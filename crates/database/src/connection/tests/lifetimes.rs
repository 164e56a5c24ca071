//! Lifetimes of connections, and the connections left after outages of the server.

use petstore_test_servers::servers::Database as TestDatabase;

use super::*;

#[tokio::test]
async fn old_and_idle_connections_are_closed() {
    let (_items, database) = new_on_postgres().await;
    let url: DatabaseUrl = database.url().parse().unwrap();
    // Long enough for the first statement.
    let (soon, never) = (Duration::from_secs(2), Duration::from_hours(1));
    for (max_idle, max_age) in [(soon, never), (never, soon)] {
        let lifetimes = Some(Lifetimes { max_idle, max_age, ping_after: never });
        let connections = Connections::new(Settings { lifetimes, ..one_connection(&url) });
        mark(&connections).await;
        assert_eq!(connections.usage(), (1, 0));
        eventually(ANSWER_TIMEOUT, async || match connections.usage() {
            (0, 0) => Ok(()),
            usage => Err(format!("{usage:?}")),
        })
        .await;
        assert!(!is_marked(&connections).await, "the next job gets a new one");
    }
}

#[tokio::test]
async fn missing_answers_do_not_pile_work_up() {
    let (_items, database) = new_on_postgres().await;
    let proxy = Proxy::to(PostgresServer::shared().await.address()).await;
    let url = database.url_at(proxy.address()).parse().unwrap();
    let slow = Items::new(Database::open(&url, &SCHEMA, OpenOptions::default()).await.unwrap());
    proxy.set(Fault::Blackhole).await;
    let calls = (0..200).map(|_| slow.find(1));
    for found in join_all(calls).await {
        assert!(matches!(found, Err(DatabaseError::Unavailable(_))), "{found:?}");
    }
    proxy.set(Fault::None).await;
    eventually(ANSWER_TIMEOUT, async || slow.database.ping().await.map_err(|error| format!("{error:?}")))
        .await;
    assert!(slow.database.writer.usage().1 <= 16);
}

/// Opens two connections through the proxy, which are pinged before each use.
async fn two_pinged_connections(proxy: &Proxy, database: &TestDatabase) -> Connections {
    let url = database.url_at(proxy.address()).parse().unwrap();
    let never = Duration::from_hours(1);
    let lifetimes = Some(Lifetimes { max_idle: never, max_age: never, ping_after: Duration::ZERO });
    let connections = Connections::new(Settings { connections: 2, lifetimes, ..one_connection(&url) });
    let (go_on, first) = hold(&connections).await;
    mark(&connections).await;
    go_on.notify_one();
    first.await.unwrap().unwrap();
    eventually(ANSWER_TIMEOUT, async || match connections.usage() {
        (2, 0) => Ok(()),
        usage => Err(format!("{usage:?}")),
    })
    .await;
    connections
}

#[tokio::test]
async fn a_call_after_all_connections_were_cut_makes_one() {
    let (_items, database) = new_on_postgres().await;
    let proxy = Proxy::to(PostgresServer::shared().await.address()).await;
    let connections = two_pinged_connections(&proxy, &database).await;
    let accepted = proxy.connections();
    proxy.reset_connections();
    connections.execute_unprepared("SELECT 1").await.unwrap();
    assert_eq!(proxy.connections() - accepted, 1);
    assert_eq!(connections.usage(), (1, 0));
}

#[tokio::test]
async fn a_call_that_times_out_cuts_no_connection_but_its_own() {
    let (_items, database) = new_on_postgres().await;
    let proxy = Proxy::to(PostgresServer::shared().await.address()).await;
    let connections = two_pinged_connections(&proxy, &database).await;
    proxy.set(Fault::Blackhole).await;
    let error = connections.execute_unprepared("SELECT 1").await.unwrap_err();
    assert_eq!(error, DbErr::ConnectionAcquire(ConnAcquireErr::Timeout));
    assert_eq!(connections.usage(), (1, 0));
}
