//! Tests that a connection is reused only if it is in order, and that acknowledged work is committed even if
//! a caller gives up or a job fails.

mod lifetimes;
mod stale_statements;

use std::{
    future::pending,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::FutureExt;
use petstore_test_servers::{
    Engine, eventually,
    faults::{
        Fault, Proxy,
        postgres::{Action, MessageFault, PostgresProxy, Side},
    },
    servers::PostgresServer,
};
use sea_orm::{ConnAcquireErr, ConnectionTrait, EntityTrait, PaginatorTrait};
use tokio::sync::Notify;

use super::*;
use crate::{
    Database, DatabaseError, DatabaseUrl, MigrationState, OpenOptions, revision, schema,
    test_support::{self, Home, Items, SCHEMA, item, new_database, new_file, new_on_postgres},
};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

fn row() -> item::ActiveModel {
    test_support::row("a")
}

/// Settings for one connection, so that each job has to use the one that the job before it left.
fn one_connection(url: &DatabaseUrl) -> Settings {
    let target = match url {
        DatabaseUrl::Sqlite(path) => {
            let options =
                sea_orm::sqlx::sqlite::SqliteConnectOptions::new().filename(path).foreign_keys(true);
            Target::Sqlite(Box::new(options.busy_timeout(Duration::from_millis(100))))
        }
        DatabaseUrl::Postgres(_) => {
            Target::Postgres(Box::new(url.to_string().parse().unwrap()), String::new())
        }
    };
    Settings {
        target,
        connections: 1,
        is_for_writes: false,
        job_timeout: Some(ANSWER_TIMEOUT),
        lifetimes: None,
        health: Arc::default(),
    }
}

/// Returns the number of committed items, which another process sees.
async fn committed(home: &Home) -> u64 {
    let other = Connections::new(one_connection(&home.url()));
    other.read(|db| Box::pin(item::Entity::find().count(db))).await.unwrap()
}

/// Marks the connection, so that a test can recognize it.
async fn mark(connections: &Connections) {
    connections.execute_unprepared("CREATE TEMP TABLE mark (id int)").await.unwrap();
}

async fn is_marked(connections: &Connections) -> bool {
    connections.execute_unprepared("SELECT * FROM mark").await.is_ok()
}

/// Starts a job that holds the only connection until it is notified.
async fn hold(connections: &Connections) -> (Arc<Notify>, JoinHandle<Result<(), DbErr>>) {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let job = tokio::spawn({
        let (connections, begun, go_on) = (connections.clone(), Arc::clone(&begun), Arc::clone(&go_on));
        async move {
            let work = connections.transaction(move |db| {
                Box::pin(async move {
                    item::Entity::insert(row()).exec_with_returning(db).await?;
                    begun.notify_one();
                    go_on.notified().await;
                    item::Entity::insert(row()).exec_with_returning(db).await.map(drop)
                })
            });
            work.await
        }
    });
    begun.notified().await;
    (go_on, job)
}

#[tokio::test]
async fn a_job_continues_after_its_caller_is_cancelled() {
    let (_items, home) = new_database().await;
    let connections = Connections::new(one_connection(&home.url()));
    mark(&connections).await;
    let (go_on, caller) = hold(&connections).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert_eq!(committed(&home).await, 0);
    go_on.notify_one();
    assert!(is_marked(&connections).await, "the same connection answers the next one");
    assert_eq!(committed(&home).await, 2);
}

#[tokio::test]
async fn a_job_whose_caller_is_cancelled_is_not_begun() {
    let (_items, home) = new_database().await;
    let connections = Connections::new(one_connection(&home.url()));
    let (go_on, first) = hold(&connections).await;
    let was_begun = Arc::new(AtomicBool::new(false));
    let given_up = connections.read({
        let was_begun = Arc::clone(&was_begun);
        move |_| {
            was_begun.store(true, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        }
    });
    assert!(time::timeout(Duration::from_millis(50), given_up).await.is_err());
    go_on.notify_one();
    first.await.unwrap().unwrap();
    connections.read(|_| Box::pin(async { Ok(()) })).await.unwrap();
    assert!(!was_begun.load(Ordering::Relaxed));
}

#[tokio::test]
async fn the_wait_for_a_free_connection_is_bounded_and_fair() {
    let (_items, home) = new_database().await;
    let connections = Connections::new(one_connection(&home.url()));
    let (go_on, first) = hold(&connections).await;
    let error = connections.read(|_| Box::pin(async { Ok(()) })).await.unwrap_err();
    assert_eq!(error, DbErr::ConnectionAcquire(ConnAcquireErr::Timeout));

    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..5 {
        let order = Arc::clone(&order);
        let mut asking = Box::pin(connections.read(move |_| {
            order.lock().unwrap().push(number);
            Box::pin(async { Ok(()) })
        }));
        assert!((&mut asking).now_or_never().is_none());
        waiting.push(asking);
    }
    go_on.notify_one();
    first.await.unwrap().unwrap();
    for asked in join_all(waiting).await {
        asked.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_job_that_times_out_or_panics_loses_its_connection_and_is_rolled_back() {
    let (_items, home) = new_database().await;
    let settings = Settings { job_timeout: Some(Duration::from_millis(200)), ..one_connection(&home.url()) };
    let connections = Connections::new(settings);
    for panics in [false, true] {
        mark(&connections).await;
        let job = connections.transaction::<(), DbErr, _>(move |db| {
            Box::pin(async move {
                item::Entity::insert(row()).exec_with_returning(db).await?;
                assert!(!panics, "at the disco");
                pending().await
            })
        });
        let error = job.await.unwrap_err();
        assert_eq!(error == DbErr::ConnectionAcquire(ConnAcquireErr::Timeout), !panics, "{error:?}");
        assert!(!is_marked(&connections).await);
    }
    assert_eq!(committed(&home).await, 0);
}

#[tokio::test]
async fn a_lock_held_too_long_is_an_outage_of_writes() {
    let (items, home) = new_database().await;
    let lock = test_support::lock_for_writing(&home.url()).await;
    let refusal = items.add("a").await.unwrap_err();
    assert!(matches!(refusal, DatabaseError::Unavailable(_)), "{refusal:?}");
    assert_eq!(items.find(1).await.unwrap(), None, "reads go on");
    lock.rollback().await.unwrap();
    items.add("a").await.unwrap();
}

#[tokio::test]
async fn processes_may_open_one_new_database_concurrently() {
    for round in 0..4 {
        let home = match Engine::of_this_run() {
            Engine::Sqlite => Home::Folder(tempfile::tempdir().unwrap()),
            Engine::Postgres => Home::Database(PostgresServer::shared().await.database().await),
        };
        if round % 2 == 1 {
            test_support::open(&home.url()).await.database.close().await;
            schema::down(&home.url(), &SCHEMA, 2).await.unwrap(); // not quite a new one
        }
        let opening = (0..6).map(|_| {
            let url = home.url();
            tokio::spawn(async move { test_support::open(&url).await })
        });
        for items in opening.collect::<Vec<_>>() {
            items.await.unwrap().database.ping().await.unwrap();
        }
        let applied = schema::status(&home.url(), &SCHEMA).await.unwrap();
        assert!(applied.iter().all(|change| change.state == MigrationState::Applied), "{applied:?}");
    }
}

#[tokio::test]
async fn a_cancelled_statement_closes_its_connection() {
    let (_items, home) = new_database().await;
    let connections = Connections::new(one_connection(&home.url()));
    mark(&connections).await;
    let result = connections.transaction::<_, DbErr, _>(|db| {
        Box::pin(async move {
            let mut insert = Box::pin(item::Entity::insert(row()).exec_with_returning(db));
            assert!((&mut insert).now_or_never().is_none());
            drop(insert);
            Ok(())
        })
    });
    assert!(result.await.is_err(), "nothing can be committed there");
    assert!(!is_marked(&connections).await);
    assert_eq!(committed(&home).await, 0);
}

#[tokio::test]
async fn a_transaction_in_which_a_statement_failed_is_never_committed() {
    let (_items, home) = new_database().await;
    let connections = Connections::new(one_connection(&home.url()));
    let result = connections.transaction::<_, DbErr, _>(|db| {
        Box::pin(async move {
            item::Entity::insert(row()).exec_with_returning(db).await?;
            db.execute_unprepared("INSERT INTO items (id) VALUES (1)").await.unwrap_err();
            Ok(()) // which is invalid
        })
    });
    assert!(result.await.is_err());
    assert_eq!(committed(&home).await, 0);
}

#[tokio::test]
async fn the_database_refuses_writes_on_a_reading_connection() {
    let (items, home) = new_database().await;
    for connections in [&items.finds.primary.connections, &items.database.reader] {
        for sql in ["INSERT INTO items (name) VALUES ('a')", "DELETE FROM items"] {
            let refused =
                connections.read(move |db| Box::pin(async move { db.execute_unprepared(sql).await }));
            assert!(refused.await.is_err(), "{sql}");
        }
        let refused = connections.read(|db| Box::pin(item::Entity::insert(row()).exec_with_returning(db)));
        assert!(refused.await.is_err());
    }
    assert_eq!(committed(&home).await, 0);
}

#[tokio::test]
async fn a_connection_with_an_unanswered_begin_is_not_reused() {
    let (_items, database) = new_on_postgres().await;
    let proxy = PostgresProxy::to(PostgresServer::shared().await.address()).await;
    let url: DatabaseUrl = database.url_at(proxy.address()).parse().unwrap();
    let settings = Settings { job_timeout: Some(Duration::from_millis(300)), ..one_connection(&url) };
    let connections = Connections::new(settings);
    mark(&connections).await;
    let fault = MessageFault {
        statement: Some("BEGIN".to_owned()),
        side: Side::Backend,
        message: "CommandComplete",
        skipped: 0,
        action: Action::Hold(Duration::from_secs(2)),
    };
    let begun = connections.transaction::<_, DbErr, _>(|db| {
        Box::pin(async move { item::Entity::insert(row()).exec_with_returning(db).await.map(drop) })
    });
    let (held, begun) = tokio::join!(proxy.inject(fault, ANSWER_TIMEOUT), begun);
    assert!(held.is_some() && begun.is_err());
    assert!(!is_marked(&connections).await);
    let insert = "INSERT INTO items (name) VALUES ('a')";
    connections.query(Statement::from_string(DbBackend::Postgres, insert)).await.unwrap();
    assert_eq!(committed(&Home::Database(database)).await, 1);
}

#[tokio::test]
async fn a_failed_commit_is_an_error_on_sqlite() {
    let (items, _folder) = new_file().await;
    // The constraint is checked at the commit, and so is a full disk.
    let table = "CREATE TABLE parts (item_id integer REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)";
    items.database.writer.execute_unprepared(table).await.unwrap();
    let insert = "INSERT INTO parts (item_id) VALUES (9) RETURNING item_id";
    let row = items.database.writer.query_one_raw(Statement::from_string(DbBackend::Sqlite, insert)).await;
    assert!(row.is_err(), "{row:?}");
}

#[tokio::test]
async fn a_job_whose_owner_cannot_connect_is_done_on_a_connection_that_becomes_free() {
    let (_items, database) = new_on_postgres().await;
    let proxy = Proxy::to(PostgresServer::shared().await.address()).await;
    let url = database.url_at(proxy.address()).parse().unwrap();
    let connections = Connections::new(Settings { connections: 2, ..one_connection(&url) });
    mark(&connections).await;
    proxy.set(Fault::ResetOnAccept).await;
    let (go_on, first) = hold(&connections).await;
    let accepted = proxy.connections();
    let second = tokio::spawn({
        let connections = connections.clone();
        async move { is_marked(&connections).await }
    });
    eventually(ANSWER_TIMEOUT, async || match proxy.connections() - accepted {
        0 => Err("the second owner has not tried to connect".to_owned()),
        _ => Ok(()),
    })
    .await;
    go_on.notify_one();
    first.await.unwrap().unwrap();
    assert!(second.await.unwrap());
}

#[tokio::test]
async fn closing_finishes_running_jobs_and_refuses_waiting_ones() {
    let (_items, home) = new_database().await;
    let connections = Connections::new(one_connection(&home.url()));
    let (go_on, under_way) = hold(&connections).await;
    let mut waiting = Box::pin(connections.read(|db| Box::pin(revision::row().all(db))));
    assert!((&mut waiting).now_or_never().is_none());
    let mut closing = Box::pin(connections.close());
    assert!((&mut closing).now_or_never().is_none(), "a job is under way");
    assert_eq!(waiting.await.unwrap_err(), DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed));
    go_on.notify_one();
    closing.await;
    under_way.await.unwrap().unwrap();
    assert_eq!(connections.usage(), (0, 0));
    assert_eq!(committed(&home).await, 2);
    let late = connections.read(|db| Box::pin(revision::row().all(db))).await;
    assert_eq!(late.unwrap_err(), DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed));
}
