use petstore_test_servers::{
    eventually,
    servers::{Database, PostgresOptions, PostgresServer},
};

use super::*;
use crate::{
    domain::{IdempotencyKey, ListPets, NewPet, PageSize, Pet, PetId},
    store::OpenOptions,
};

/// Longer than it takes to detect that a replica lags.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);
const OPEN: OpenOptions = OpenOptions { migrate: true, quick_check: false };
const NOW: petstore_clock::UnixMillis = petstore_clock::UnixMillis(1_800_000_000_000);

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
    let store = Store::open(&primary, OPEN).await.unwrap().with_replicas(&primary, &[replica]).unwrap();
    let watched = store.clone();
    tokio::spawn(async move { watched.watch_replicas().await });
    store
}

async fn uses(store: &Store, expected: usize) {
    eventually(CHANGE_TIMEOUT, async || {
        let used = store.replicas.all.iter().filter(|replica| replica.is_usable()).count();
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
    store.list_pets(list).await.unwrap().rows
}

/// Returns the number of pets that the replica shows. A replica that answers slowly is skipped until the next
/// check, which is awaited.
async fn on_replica(store: &Store) -> usize {
    eventually(CHANGE_TIMEOUT, async || {
        let list = ListPets { size: PageSize::MAX, after: None, status: None };
        let rows = store.read_from_replica(|replica| async move { replica.list(list, 100).await });
        rows.await.map(|rows| rows.len()).ok_or("the replica is passed over".to_owned())
    })
    .await
}

#[tokio::test]
async fn lists_come_from_a_replica_and_a_new_pet_is_found_on_the_primary() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let store = open(&database, &replica).await;
    let first = store.insert_pet(rex()).await.unwrap();
    assert_eq!(store.find_pet(first.id).await.unwrap(), Some(first.clone()));
    uses(&store, 1).await;
    shows(&store, 1).await;

    // From here the replica's content differs from the primary's.
    replica.psql("SELECT pg_wal_replay_pause()").await;
    let id = IdempotencyKey::parse("a").unwrap().unwrap();
    let second = store.insert_pet_once(&id, rex(), NOW).await.unwrap().pet;
    assert_eq!(listed(&store).await, [first.clone(), second.clone()], "the last page is never late");
    assert_eq!(on_replica(&store).await, 1, "late");
    assert_eq!(store.find_pet(second.id).await.unwrap(), Some(second.clone()), "never late");
    assert!(store.insert_pet_once(&id, rex(), NOW).await.unwrap().replayed, "never late");

    uses(&store, 0).await; // its deadline has passed by now
    assert_eq!(listed(&store).await, [first.clone(), second.clone()]);
    replica.psql("SELECT pg_wal_replay_resume()").await;
    uses(&store, 1).await;
    assert_eq!(listed(&store).await, [first, second]);
}

#[tokio::test]
async fn a_walk_continues_despite_a_lagging_replica() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let store = open(&database, &replica).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(store.insert_pet(rex()).await.unwrap());
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
        all.push(store.insert_pet(rex()).await.unwrap());
    }
    let (mut walked, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let list = ListPets { size: PageSize::parse(2).unwrap(), after, status: None };
        let page = store.list_pets(list).await.unwrap();
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
    let pet = store.insert_pet(rex()).await.unwrap();
    uses(&store, 1).await;

    replica.pause();
    for _ in 0..5 {
        assert_eq!(store.find_pet(pet.id).await.unwrap(), Some(pet.clone()));
        assert_eq!(listed(&store).await, std::slice::from_ref(&pet));
    }
    replica.resume();
    uses(&store, 1).await;
    replica.kill9().await;
    for _ in 0..5 {
        assert_eq!(store.find_pet(pet.id).await.unwrap(), Some(pet.clone()));
        assert_eq!(store.find_pet(PetId(99)).await.unwrap(), None);
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
    let pet = store.insert_pet(rex()).await.unwrap();
    uses(&store, 1).await;
    shows(&store, 1).await;

    primary.stop_immediate().await;
    let list = ListPets { size: PageSize::MAX, after: None, status: None };
    eventually(CHANGE_TIMEOUT, async || {
        let (found, page) = tokio::join!(store.find_pet(pet.id), store.list_pets(list));
        assert_eq!(found.map_err(|error| error.to_string())?, Some(pet.clone()));
        assert_eq!(page.map_err(|error| error.to_string())?.rows, std::slice::from_ref(&pet));
        Ok(())
    })
    .await;
    assert!(matches!(store.insert_pet(rex()).await, Err(PetStoreError::Unavailable(_))));
}

#[tokio::test]
async fn a_server_that_is_not_a_replica_of_the_primary_is_not_used() {
    let [primary, foreign] = [
        PostgresServer::start(PostgresOptions::default()).await,
        PostgresServer::start(PostgresOptions::default()).await,
    ];
    let database = primary.database().await;
    assert_eq!(foreign.database().await.name(), database.name());
    let copy_of_foreign = PostgresServer::start_replica(&foreign).await;
    for other in [&foreign, &copy_of_foreign] {
        let store = open(&database, other).await;
        let looked_at = store.primary().await.unwrap();
        store.replicas.all[0].check(&looked_at).await;
        assert!(!store.replicas.all[0].is_usable());
    }
}

#[tokio::test]
async fn damage_of_a_replica_is_none_of_the_store() {
    let primary = PostgresServer::start(PostgresOptions::default()).await;
    let replica = PostgresServer::start_replica(&primary).await;
    let database = primary.database().await;
    let store = open(&database, &replica).await;
    uses(&store, 1).await;
    let damage = "DO $$ BEGIN RAISE SQLSTATE 'XX001'; END $$";
    for (connections, is_damaged) in [(&store.replicas.all[0].connections, false), (&store.reader, true)] {
        connections.query(Statement::from_string(DbBackend::Postgres, damage)).await.unwrap_err();
        assert_eq!(store.health.is_damaged(), is_damaged);
    }
}
