use std::time::Duration;

use sea_orm::ConnectionTrait;

use petstore_database::testing::foreign_transaction;

use super::*;
use crate::{
    pets::PetId,
    store::test_support::{lock_for_writing, new_database, new_store, open},
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn id(name: &str) -> IdempotencyKey {
    IdempotencyKey::parse(name).unwrap().unwrap()
}

fn pet(name: &str) -> NewPet {
    NewPet::named(name)
}

#[tokio::test]
async fn an_idempotency_key_is_not_stored_in_plain_text() {
    let (store, _home) = new_store().await;
    store.pets.insert_pet_once(&id("rest/1/a-secret"), pet("Rex"), NOW).await.unwrap();
    let kept = create_request::Entity::find().all(store.database().reader()).await.unwrap();
    assert_eq!(kept.iter().map(|row| row.digest.len()).collect::<Vec<_>>(), [32]);
    assert!(!format!("{kept:?}").contains("secret"));
}

#[tokio::test]
async fn concurrent_creations_with_one_key_add_one_pet_across_cores() {
    let (store, home) = new_store().await;
    let stores = [store, open(&home).await];
    for round in 0..10 {
        let name = format!("round-{round}");
        let asking: Vec<_> = (0..8)
            .map(|number| {
                let (store, name) = (stores[number % 2].clone(), id(&name));
                tokio::spawn(async move { store.pets.insert_pet_once(&name, pet("Rex"), NOW).await })
            })
            .collect();
        let mut added = Vec::new();
        for answer in asking {
            match answer.await.unwrap() {
                Ok(created) => added.push((created.pet.id, created.replayed)),
                Err(PetStoreError::RequestInProgress) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(added.iter().filter(|(_, replayed)| !replayed).count(), 1, "{added:?}");
        assert!(added.iter().all(|(id, _)| *id == added[0].0), "{added:?}");
    }
}

#[tokio::test]
async fn a_repetition_during_a_creation_is_refused_as_in_progress() {
    let (store, home) = new_store().await;
    let lock = lock_for_writing(&home).await;
    let first = tokio::spawn({
        let store = store.clone();
        async move { store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await }
    });
    while store.pets.creates.begin(&id("a")).is_some() {
        tokio::task::yield_now().await; // the first has not begun
    }
    let refusal = store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await.unwrap_err();
    assert!(matches!(refusal, PetStoreError::RequestInProgress), "{refusal:?}");
    lock.rollback().await.unwrap();
    assert!(!first.await.unwrap().unwrap().replayed);
    assert!(store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await.unwrap().replayed);
}

#[tokio::test]
async fn a_repetition_during_another_cores_creation_is_refused_as_in_progress() {
    let (store, database) = new_database().await;
    let other = foreign_transaction(&database.url().parse().unwrap()).await.unwrap();
    let name = format!(
        "INSERT INTO create_requests (digest, pet_id, created_at) VALUES (sha256('a'), 1, {})",
        NOW.0
    );
    other.execute_unprepared(&name).await.unwrap();
    let refusal = store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await.unwrap_err();
    assert!(matches!(refusal, PetStoreError::RequestInProgress), "{refusal:?}");
    other.rollback().await.unwrap();
    assert!(!store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await.unwrap().replayed);
}

#[tokio::test]
async fn a_failed_creation_leaves_its_key_free() {
    let (store, home) = new_store().await;
    let lock = lock_for_writing(&home).await;
    let refusal = store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await.unwrap_err();
    assert!(matches!(refusal, PetStoreError::Unavailable(_)), "{refusal:?}");
    lock.rollback().await.unwrap();
    assert!(!store.pets.insert_pet_once(&id("a"), pet("Mia"), NOW).await.unwrap().replayed);
}

#[tokio::test]
async fn a_name_is_kept_for_24_hours() {
    let (store, _home) = new_store().await;
    let first = store.pets.insert_pet_once(&id("a"), pet("Rex"), NOW).await.unwrap().pet;
    let almost = NOW.plus(Duration::from_hours(24)).0 - 1;
    assert!(store.pets.insert_pet_once(&id("a"), pet("Rex"), UnixMillis(almost)).await.unwrap().replayed);
    let later = NOW.plus(Duration::from_hours(24));
    let second = store.pets.insert_pet_once(&id("a"), pet("Mia"), later).await.unwrap();
    assert!(!second.replayed && second.pet.id > first.id);
    assert!(store.pets.insert_pet_once(&id("a"), pet("Mia"), later).await.unwrap().replayed);
}

#[tokio::test]
async fn the_sweep_deletes_expired_keys_in_bounded_batches() {
    let (store, _home) = new_store().await;
    for number in 0..5 {
        store
            .pets
            .insert_pet_once(&id(&number.to_string()), pet("Rex"), UnixMillis(NOW.0 + number))
            .await
            .unwrap();
    }
    let later = UnixMillis(NOW.plus(Duration::from_hours(24)).0 + 3);
    assert_eq!(store.pets.forget_expired_requests(later, 3).await.unwrap(), 3);
    assert_eq!(store.pets.forget_expired_requests(later, 3).await.unwrap(), 1);
    assert_eq!(store.pets.forget_expired_requests(later, 3).await.unwrap(), 0);
    assert!(store.pets.insert_pet_once(&id("4"), pet("Rex"), later).await.unwrap().replayed);
    assert!(store.pets.find_pet(PetId(1)).await.unwrap().is_some(), "the pets stay");
}
