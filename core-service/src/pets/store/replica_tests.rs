//! Reads of pets from replicas.

use std::time::Duration;

use petstore_database::{DatabaseUrl, OpenOptions};
use petstore_test_servers::{
    eventually,
    servers::{Database, PostgresOptions, PostgresServer},
};

use super::reads::Rows;
use crate::{
    errors::PetStoreError,
    pages::PageSize,
    pets::{ListPets, NewPet, Pet, PetId},
    store::Store,
};

/// Longer than it takes to detect that a replica lags.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);
const OPEN: OpenOptions = OpenOptions { migrate: true, quick_check: false };

fn url(written: &str) -> DatabaseUrl {
    written.parse().unwrap()
}

fn rex() -> NewPet {
    NewPet::named("Rex")
}

/// Opens a store on the database that reads from the replica and checks it.
async fn open(database: &Database, replica: &PostgresServer) -> Store {
    let primary = url(&database.url());
    let replica = url(&database.url_at(replica.address()));
    let store = Store::open(&primary, &[replica], OPEN).await.unwrap();
    let watched = store.database().clone();
    tokio::spawn(async move { watched.watch().await });
    store
}

async fn uses(store: &Store, expected: usize) {
    eventually(CHANGE_TIMEOUT, async || {
        let used = store.database().usable_replicas();
        if used == expected { Ok(()) } else { Err(format!("{used} are used")) }
    })
    .await;
}

async fn shows(store: &Store, expected: usize) {
    eventually(CHANGE_TIMEOUT, async || match listed(store).await {
        pets if pets.len() == expected => Ok(()),
        pets => Err(format!("{pets:?}")),
    })
    .await;
}

async fn listed(store: &Store) -> Vec<Pet> {
    let list = ListPets { size: PageSize::MAX, after: None, status: None };
    store.pets.list_pets(list).await.unwrap().rows
}

/// Returns the number of pets that the replica shows. A replica that answers slowly is skipped until the next
/// check, which is awaited.
async fn on_replica(store: &Store) -> usize {
    eventually(CHANGE_TIMEOUT, async || {
        let list = ListPets { size: PageSize::MAX, after: None, status: None };
        let rows = store.database().ask_replica(&store.pets.lists, Rows::of(list, 100));
        rows.await.map(|rows| rows.len()).ok_or("the replica is passed over".to_owned())
    })
    .await
}

#[tokio::test]
async fn a_walk_continues_despite_a_lagging_replica() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let store = open(&database, &replica).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(store.pets.insert_pet(rex()).await.unwrap());
    }
    uses(&store, 1).await;
    shows(&store, 3).await;
    eventually(CHANGE_TIMEOUT, async || match on_replica(&store).await {
        3 => Ok(()),
        count => Err(format!("{count} are there")),
    })
    .await;
    replica.psql("SELECT pg_wal_replay_pause()").await;
    for _ in 0..2 {
        all.push(store.pets.insert_pet(rex()).await.unwrap());
    }
    let (mut walked, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let list = ListPets { size: PageSize::parse(2).unwrap(), after, status: None };
        let page = store.pets.list_pets(list).await.unwrap();
        after = page.rows.last().map(|pet| pet.id);
        sizes.push(page.rows.len());
        walked.extend(page.rows);
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!((walked, sizes), (all, vec![2, 2, 1]));
    assert_eq!(on_replica(&store).await, 3, "it was late, and in use");
}

#[tokio::test]
async fn the_primary_answers_while_a_replica_is_unreachable() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let mut replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let store = open(&database, &replica).await;
    let pet = store.pets.insert_pet(rex()).await.unwrap();
    uses(&store, 1).await;

    replica.pause();
    for _ in 0..5 {
        assert_eq!(store.pets.find_pet(pet.id).await.unwrap(), Some(pet.clone()));
        assert_eq!(listed(&store).await, std::slice::from_ref(&pet));
    }
    replica.resume();
    uses(&store, 1).await;
    replica.kill9().await;
    for _ in 0..5 {
        assert_eq!(store.pets.find_pet(pet.id).await.unwrap(), Some(pet.clone()));
        assert_eq!(store.pets.find_pet(PetId(99)).await.unwrap(), None);
        assert_eq!(listed(&store).await, std::slice::from_ref(&pet));
    }
    replica.restart().await;
    uses(&store, 1).await;
}

#[tokio::test]
async fn a_replica_answers_and_nothing_is_added_while_the_primary_is_unreachable() {
    let mut primary = PostgresServer::start(PostgresOptions::default()).await;
    let replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let store = open(&database, &replica).await;
    let pet = store.pets.insert_pet(rex()).await.unwrap();
    uses(&store, 1).await;
    shows(&store, 1).await;

    primary.stop_immediate().await;
    let list = ListPets { size: PageSize::MAX, after: None, status: None };
    eventually(CHANGE_TIMEOUT, async || {
        let (found, page) = tokio::join!(store.pets.find_pet(pet.id), store.pets.list_pets(list));
        assert_eq!(found.map_err(|error| error.to_string())?, Some(pet.clone()));
        assert_eq!(page.map_err(|error| error.to_string())?.rows, std::slice::from_ref(&pet));
        Ok(())
    })
    .await;
    assert!(matches!(store.pets.insert_pet(rex()).await, Err(PetStoreError::Unavailable(_))));
}
