//! Batched creation of pets, with and without names.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use petstore_database::testing::{Connections, Observe, foreign_transaction};
use petstore_test_servers::{Engine, Home};

use super::*;
use crate::{
    errors::PetStoreError,
    pages::PageSize,
    pets::{Created, IdempotencyKey, ListPets, store::StoredPets},
    store::{
        Store,
        test_support::{new_database, new_store, open},
    },
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

impl StoredPets {
    /// Calls the function after each statement of a batch.
    pub(crate) fn observe(&mut self, observe: &Observe) {
        self.gets.primary().observe(observe);
        self.lists.primary().observe(observe);
        self.creates.observe(observe);
    }
}

impl PetCreates {
    pub(in crate::pets) fn connections(&self) -> &Connections {
        self.batches.connections()
    }

    fn observe(&mut self, observe: &Observe) {
        self.batches.observe(observe);
    }
}

fn named(name: &str) -> IdempotencyKey {
    IdempotencyKey::parse(name).unwrap().unwrap()
}

fn pet(name: &str) -> NewPet {
    NewPet::named(name)
}

fn in_category(name: &str, category_id: i64) -> NewPet {
    NewPet { category_id, ..NewPet::named(name) }
}

/// Returns the store and a counter of the statements that it has sent.
fn counted(mut store: Store) -> (Store, std::sync::Arc<AtomicUsize>) {
    let count = std::sync::Arc::<AtomicUsize>::default();
    let counter = std::sync::Arc::clone(&count);
    store.observe(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (store, count)
}

/// Adds the pets concurrently, each named like its creation.
async fn create_all(store: &Store, names: &[&str]) -> Vec<Result<Created, PetStoreError>> {
    let creations =
        names.iter().map(async |name| store.pets.insert_pet_once(&named(name), pet(name), NOW).await);
    join_all(creations).await
}

#[tokio::test]
async fn concurrent_creations_are_one_statement_and_each_gets_its_own_pet() {
    let (store, _home) = new_store().await;
    let (store, sent) = counted(store);
    let names: Vec<_> = (0..40).map(|number| format!("pet {number}")).collect();
    let creations = (0_i64..).zip(&names).map(async |(number, name)| {
        let new = in_category(name, i64::MIN + number);
        if number % 2 == 0 {
            store.pets.insert_pet(new).await.unwrap()
        } else {
            store.pets.insert_pet_once(&named(&number.to_string()), new, NOW).await.unwrap().pet
        }
    });
    let pets = join_all(creations).await;
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    for ((id, name), created) in (1_i64..).zip(&names).zip(&pets) {
        assert_eq!((created.id.0, created.name.as_str()), (id, name.as_str()));
        assert_eq!(store.pets.find_pet(created.id).await.unwrap().as_ref(), Some(created));
    }
    for (number, created) in pets.iter().enumerate().skip(1).step_by(2) {
        let again = store.pets.insert_pet_once(&named(&number.to_string()), pet(&names[number]), NOW).await;
        assert!(
            matches!(again, Err(PetStoreError::IdempotencyKeyReused)),
            "the categories differ: {again:?}"
        );
        let same = in_category(&names[number], created.category_id);
        let again = store.pets.insert_pet_once(&named(&number.to_string()), same, NOW).await.unwrap();
        assert_eq!(again, Created { pet: created.clone(), replayed: true });
    }
}

#[tokio::test]
async fn more_creations_than_fit_are_split_into_batches() {
    let (store, _home) = new_store().await;
    let (store, sent) = counted(store);
    let pets = join_all((0..3 * MOST_PETS).map(|_| store.pets.insert_pet(pet("Rex")))).await;
    let mut ids: Vec<_> = pets.into_iter().map(|pet| pet.unwrap().id.0).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(1..=i64::try_from(3 * MOST_PETS).unwrap()), "{ids:?}");
    assert_eq!(sent.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_taken_key_fails_no_other_creation_of_its_batch() {
    let (store, home) = new_store().await;
    let other = open(&home).await;
    let taken = other.pets.insert_pet_once(&named("b"), pet("b"), NOW).await.unwrap().pet;
    let reused = other.pets.insert_pet_once(&named("c"), pet("somebody else"), NOW).await.unwrap().pet;
    let (store, sent) = counted(store);
    let mut created = create_all(&store, &["a", "b", "c", "d"]).await;
    assert_eq!(sent.load(Ordering::Relaxed), 5, "one that adds, and two for each that was added before");
    let last = created.pop().unwrap().unwrap();
    assert!(matches!(created.pop().unwrap(), Err(PetStoreError::IdempotencyKeyReused)));
    assert_eq!(created.pop().unwrap().unwrap(), Created { pet: taken, replayed: true });
    let first = created.pop().unwrap().unwrap();
    assert!(!first.replayed && !last.replayed);
    assert!(reused.id < first.pet.id && first.pet.id < last.pet.id);
}

/// Makes the database refuse pets of one name.
async fn refuse_bad_pets(store: &Store) {
    use sea_orm::ConnectionTrait;
    let rule = match Engine::of_this_run() {
        Engine::Sqlite => {
            "CREATE TRIGGER no_bad_pets BEFORE INSERT ON pets WHEN NEW.name = 'bad' \
             BEGIN SELECT RAISE(ABORT, 'a bad pet'); END"
        }
        Engine::Postgres => "ALTER TABLE pets ADD CONSTRAINT no_bad_pets CHECK (name <> 'bad')",
    };
    store.database().writer().execute_unprepared(rule).await.unwrap();
}

#[tokio::test]
async fn a_refused_pet_fails_no_other_creation_of_its_batch() {
    let (store, _home) = new_store().await;
    refuse_bad_pets(&store).await;
    let created = create_all(&store, &["a", "bad", "c"]).await;
    assert!(matches!(created[1], Err(PetStoreError::Bug(_))), "{created:?}");
    assert!(created[0].is_ok() && created[2].is_ok(), "{created:?}");
    let (good, bad) = tokio::join!(store.pets.insert_pet(pet("good")), store.pets.insert_pet(pet("bad")));
    assert!(good.is_ok() && matches!(bad, Err(PetStoreError::Bug(_))), "{good:?} {bad:?}");
    let list = ListPets { size: PageSize::MAX, after: None, status: None };
    let kept: Vec<_> = store.pets.list_pets(list).await.unwrap().rows;
    let mut kept: Vec<_> = kept.iter().map(|pet| pet.name.as_str()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["a", "c", "good"], "each is there once");
}

#[tokio::test]
async fn a_key_held_by_another_core_delays_no_other_creation() {
    use sea_orm::ConnectionTrait;
    let (store, database) = new_database().await;
    let other = foreign_transaction(&database.url().parse().unwrap()).await.unwrap();
    let name = format!(
        "INSERT INTO create_requests (digest, pet_id, created_at) VALUES (sha256('held'), 1, {})",
        NOW.0
    );
    other.execute_unprepared(&name).await.unwrap();
    // On a busy machine the others may take as long as the one that is held. It is a fault if they always do.
    let mut round = 0;
    petstore_test_servers::eventually(Duration::from_secs(10), async || {
        round += 1;
        let (first_name, last_name) = (format!("a{round}"), format!("z{round}"));
        let start = Instant::now();
        let create = async |name| {
            let created = store.pets.insert_pet_once(&named(name), pet(name), NOW).await;
            (created, start.elapsed())
        };
        let ((first, first_took), (held, held_took), (last, last_took)) =
            tokio::join!(create(first_name.as_str()), create("held"), create(last_name.as_str()));
        assert!(matches!(held, Err(PetStoreError::RequestInProgress)), "{held:?}");
        assert!(!first.unwrap().replayed && !last.unwrap().replayed);
        assert!(held_took > Duration::from_secs(1), "{held_took:?}");
        let took = first_took.max(last_took);
        if took < Duration::from_millis(900) { Ok(()) } else { Err(format!("they took {took:?}")) }
    })
    .await;
    other.rollback().await.unwrap();
}

/// Tests that two cores that add the same names cannot deadlock: at most one waits for the other.
#[tokio::test]
async fn a_batch_adds_keys_in_the_order_of_their_digests() {
    use sea_orm::ConnectionTrait;
    let (store, database) = new_database().await;
    let url = database.url().parse().unwrap();
    let mut names: Vec<_> = ["a", "b", "c", "d", "e"].map(named).to_vec();
    names.sort_unstable_by_key(|name| store.pets.creates.begin(name).unwrap().digest());
    let hex = |name: &IdempotencyKey| hexadecimal(&store.pets.creates.begin(name).unwrap().digest());
    let insert = |digest: &str| {
        format!("INSERT INTO create_requests (digest, pet_id, created_at) VALUES ('\\x{digest}', 1, 1)")
    };
    let digests: Vec<_> = names.iter().map(hex).collect();
    let middle = foreign_transaction(&url).await.unwrap();
    middle.execute_unprepared(&insert(&digests[2])).await.unwrap();

    // Two other orders, opposite to each other.
    for order in [[4, 2, 0, 3, 1], [1, 3, 0, 2, 4]] {
        let rows = order.map(|index| {
            let key = store.pets.creates.begin(&names[index]).unwrap();
            NewRow { pet: pet("Rex"), name: Some((key, NOW)) }
        });
        let adding = tokio::spawn({
            let (connections, add) = (store.pets.creates.connections().clone(), add_statement(&rows, "1s"));
            async move {
                let added = connections.query(add).await;
                drop(rows); // the names stay in flight until then
                added
            }
        });
        // The batch waits for the middle one, and has added those before it but none of those after it.
        let waits = async || {
            let locks = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) \
                         WHERE NOT granted AND locktype = 'transactionid' AND datname = current_database()";
            if database.psql(locks).await == "1" { Ok(()) } else { Err("it does not wait yet".to_owned()) }
        };
        petstore_test_servers::eventually(Duration::from_secs(10), waits).await;
        for (index, is_taken) in [(1, true), (3, false)] {
            let probe = foreign_transaction(&url).await.unwrap();
            probe.execute_unprepared("SET LOCAL lock_timeout = '10ms'").await.unwrap();
            let added = probe.execute_unprepared(&insert(&digests[index])).await;
            assert_eq!(added.is_err(), is_taken, "{index}: {added:?}");
            probe.rollback().await.unwrap();
        }
        assert!(adding.await.unwrap().is_err());
    }
}

#[tokio::test]
async fn two_cores_adding_the_same_keys_in_opposite_orders_add_each_once() {
    let (store, home) = new_store().await;
    let other = open(&home).await;
    for round in 0..10 {
        let names: Vec<_> = (0..20).map(|number| format!("{round}-{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let reversed: Vec<_> = names.iter().rev().copied().collect();
        let (ours, theirs) = tokio::join!(create_all(&store, &names), create_all(&other, &reversed));
        for (ours, theirs) in ours.into_iter().zip(theirs.into_iter().rev()) {
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert_eq!(ours.pet, theirs.pet);
            assert!(ours.replayed != theirs.replayed, "{ours:?} {theirs:?}");
        }
    }
}

#[tokio::test]
async fn a_cancelled_caller_cancels_no_other_creation_of_its_batch() {
    let (store, home) = new_store().await;
    let lock = crate::store::test_support::lock_for_writing(&home).await;
    let creations = ["a", "b", "c"].map(|name| {
        let store = store.clone();
        tokio::spawn(async move { store.pets.insert_pet_once(&named(name), pet(name), NOW).await })
    });
    tokio::time::sleep(Duration::from_millis(100)).await; // they are in flight, and wait for the lock
    let [first, given_up, last] = creations;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let twin = store.pets.insert_pet_once(&named("b"), pet("b"), NOW).await;
    assert!(matches!(twin, Err(PetStoreError::RequestInProgress)), "{twin:?}");
    lock.rollback().await.unwrap();
    let (first, last) = (first.await.unwrap().unwrap(), last.await.unwrap().unwrap());
    assert!(!first.replayed && !last.replayed);
    let again = store.pets.insert_pet_once(&named("b"), pet("b"), NOW).await.unwrap();
    assert!(again.replayed, "it was finished");
    drop::<Home>(home);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_pet_is_found_at_once_alone_and_in_lists() {
    let (store, _home) = new_store().await;
    let list = ListPets { size: PageSize::MAX, after: None, status: None };
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    let pet = store.pets.insert_pet(pet("Rex")).await.unwrap();
                    let (found, page) = tokio::join!(store.pets.find_pet(pet.id), store.pets.list_pets(list));
                    assert_eq!(found.unwrap().as_ref(), Some(&pet));
                    assert!(page.unwrap().rows.contains(&pet), "{pet:?}");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}
