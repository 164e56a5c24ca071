//! Lifetimes of connections, and the connections left after outages of the server.

use super::*;

#[tokio::test]
async fn old_and_idle_connections_are_closed() {
    let (_store, database) = new_database().await;
    let url: crate::DatabaseUrl = database.url().parse().unwrap();
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
async fn one_caller_after_the_other_uses_one_connection_for_each_kind_of_call() {
    let (store, home) = new_store().await;
    for _ in 0..20 {
        store.insert_pet(rex()).await.unwrap();
        store.find_pet(PetId(1)).await.unwrap();
        for connections in [store.pet_reads.connections()[0], store.creates.connections()] {
            let (idle, used) = connections.usage();
            assert_eq!(idle + used, 1);
        }
    }
    drop(home);
}

#[tokio::test]
async fn pets_acknowledged_while_the_server_was_frozen_are_kept() {
    let mut server = PostgresServer::start(PostgresOptions::default()).await;
    let database = server.database().await;
    let home = Home::Database(database);
    let store = open(&home).await;
    let mut acknowledged = 0;
    for _ in 0..2 {
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..16)
            .map(|number| {
                let (store, stop) = (store.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut acknowledged = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        // Transactions and single statements in turn on the same connections.
                        if number % 2 == 0 {
                            let _ = store.forget_expired_requests(NOW, 10).await;
                        }
                        acknowledged += u64::from(store.insert_pet(rex()).await.is_ok());
                    }
                    acknowledged
                })
            })
            .collect();
        time::sleep(Duration::from_millis(200)).await;
        server.pause();
        time::sleep(Duration::from_millis(1_600)).await;
        server.resume();
        time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            acknowledged += caller.await.unwrap();
        }
    }
    let found = committed(&home).await;
    assert!(acknowledged > 0 && found >= acknowledged, "{acknowledged} acknowledged, {found} found");
}

#[tokio::test]
async fn missing_answers_do_not_pile_work_up() {
    let (_store, database) = new_database().await;
    let proxy = Proxy::to(PostgresServer::shared().await.address()).await;
    let url = database.url_at(proxy.address()).parse().unwrap();
    let slow = Store::open(&url, OpenOptions::default()).await.unwrap();
    proxy.set(Fault::Blackhole).await;
    let calls = (0..200).map(|_| slow.find_pet(PetId(1)));
    for found in join_all(calls).await {
        assert!(matches!(found, Err(PetStoreError::Unavailable(_))), "{found:?}");
    }
    proxy.set(Fault::None).await;
    eventually(ANSWER_TIMEOUT, async || slow.ping().await.map_err(|error| format!("{error:?}"))).await;
    assert!(slow.writer.usage().1 <= 16);
}
