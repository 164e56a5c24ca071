//! Acknowledged work is kept, and each connection stays in order, if a caller gives up or the server stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use petstore_clock::UnixMillis;
use petstore_test_servers::{
    Home, eventually,
    servers::{PostgresOptions, PostgresServer},
};
use sea_orm::{EntityTrait, PaginatorTrait};
use tokio::time;

use crate::{
    errors::PetStoreError,
    pets::{IdempotencyKey, NewPet, PetId, entity as pet},
    store::test_support::{lock_for_writing, new_store, open},
};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn rex() -> NewPet {
    NewPet::named("Rex")
}

/// Returns the number of committed pets, which another process sees.
async fn committed(home: &Home) -> u64 {
    pet::Entity::find().count(open(home).await.database().reader()).await.unwrap()
}

#[tokio::test]
async fn a_caller_cancelled_during_a_lock_wait_leaves_no_transaction() {
    let (store, home) = new_store().await;
    for round in 0..3 {
        let lock = lock_for_writing(&home).await;
        let id = IdempotencyKey::parse(&format!("round-{round}")).unwrap().unwrap();
        let calls = (
            time::timeout(Duration::from_millis(50), store.pets.insert_pet(rex())),
            time::timeout(Duration::from_millis(50), store.pets.insert_pet_once(&id, rex(), NOW)),
        );
        let (one, other) = tokio::join!(calls.0, calls.1);
        assert!(one.is_err() && other.is_err(), "they waited for the lock");
        lock.rollback().await.unwrap();
        let before = committed(&home).await;
        let mut acknowledged = 0;
        for _ in 0..40 {
            acknowledged += u64::from(store.pets.insert_pet(rex()).await.is_ok());
        }
        // A cancelled call may have added its pet meanwhile.
        let found = committed(&home).await;
        assert!(
            acknowledged > 0 && found >= before + acknowledged,
            "{acknowledged} acknowledged, {found} found"
        );
    }
}

#[tokio::test]
async fn a_cancelled_creation_holds_its_key_until_it_ends() {
    let (store, home) = new_store().await;
    let id = IdempotencyKey::parse("a").unwrap().unwrap();
    let lock = lock_for_writing(&home).await;
    let given_up = time::timeout(Duration::from_millis(100), store.pets.insert_pet_once(&id, rex(), NOW));
    assert!(given_up.await.is_err());
    let twin = store.pets.insert_pet_once(&id, rex(), NOW).await;
    assert!(matches!(twin, Err(PetStoreError::RequestInProgress)), "{twin:?}");
    lock.rollback().await.unwrap();
    let created = eventually(ANSWER_TIMEOUT, async || {
        store.pets.insert_pet_once(&id, rex(), NOW).await.map_err(|error| format!("{error:?}"))
    })
    .await;
    assert!(created.replayed, "the creation that was given up had gone on");
    assert_eq!(committed(&home).await, 1);
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
                            let _ = store.pets.forget_expired_requests(NOW, 10).await;
                        }
                        acknowledged += u64::from(store.pets.insert_pet(rex()).await.is_ok());
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
async fn one_caller_after_the_other_uses_one_connection_for_each_kind_of_call() {
    let (mut store, home) = new_store().await;
    for _ in 0..20 {
        store.pets.insert_pet(rex()).await.unwrap();
        store.pets.find_pet(PetId(1)).await.unwrap();
        for connections in [store.pets.gets.primary().connections(), store.pets.creates.connections()] {
            let (idle, used) = connections.usage();
            assert_eq!(idle + used, 1);
        }
    }
    drop(home);
}
