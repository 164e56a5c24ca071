use std::collections::HashSet;

use futures_util::future::join_all;
use petstore_clock::UnixMillis;
use proptest::{prelude::*, sample::select};
use sea_orm::{ActiveValue::Set, EntityTrait};
use tokio::runtime::Runtime;

use super::*;
use crate::{
    pages::PageSize,
    pets::{IdempotencyKey, PetName, PetStatus},
    store::{Store, test_support::new_store},
};

fn new_pet(name: &str, status: Option<PetStatus>) -> NewPet {
    NewPet { category_id: 7, status, ..NewPet::named(name) }
}

fn statuses() -> impl Strategy<Value = Option<PetStatus>> {
    proptest::option::of(select(&PetStatus::ALL[..]))
}

fn batch(names: impl ExactSizeIterator<Item = String>) -> Vec<NewPet> {
    names.map(|name| new_pet(&name, Some(PetStatus::Sold))).collect()
}

#[tokio::test]
async fn identifiers_ascend_from_1_and_are_never_assigned_twice() {
    let (store, _folder) = new_store().await;
    for id in 1..=3 {
        assert_eq!(store.pets.insert_pet(new_pet("Rex", None)).await.unwrap().id, PetId(id));
    }
    pet::Entity::delete_by_id(3).exec(store.database().writer()).await.unwrap();
    assert_eq!(store.pets.insert_pet(new_pet("Rex", None)).await.unwrap().id, PetId(4));
}

/// Returns the pets of all pages, read with the sizes in turn and the encoded page tokens.
async fn walk(store: &Store, status: Option<PetStatus>, sizes: &[i32]) -> Vec<Pet> {
    let mut walked = Vec::new();
    let mut token = String::new();
    for &size in sizes.iter().cycle().take(100) {
        let list = ListPets::parse(size, &token, Ok(status)).unwrap();
        let page = store.pets.list_pets(list).await.unwrap();
        assert!(page.rows.len() <= list.size.get());
        walked.extend(page.rows);
        match page.next {
            Some(next) => token = next.to_string(),
            None => break,
        }
    }
    walked
}

/// Makes the calls one after another, each of which runs an entity query, and all at once, which run a
/// statement of `sql`. Returns both results.
async fn alone_and_together<T>(
    calls: impl Iterator<Item = impl Future<Output = T>> + Clone,
) -> (Vec<T>, Vec<T>) {
    let mut alone = Vec::new();
    for call in calls.clone() {
        alone.push(call.await);
    }
    (alone, join_all(calls).await)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_statements_for_calls_together_equal_the_entity_queries(
        stored in proptest::collection::vec(statuses(), 2..40),
        lists in proptest::collection::vec((-1..45_i64, 1..30_i32, statuses()), 2..30),
        ids in proptest::collection::hash_set(-2..45_i64, 2..30),
    ) {
        Runtime::new().unwrap().block_on(async {
            let (store, _folder) = new_store().await;
            let new = || stored.iter().map(|status| new_pet("Rex", *status));
            let (alone, together) = alone_and_together(new().map(|new| store.pets.insert_pet(new))).await;
            for (index, (alone, together)) in alone.into_iter().zip(together).enumerate() {
                let (alone, together) = (alone.unwrap(), together.unwrap());
                let count = i64::try_from(stored.len()).unwrap();
                prop_assert_eq!(alone.id.0, i64::try_from(index).unwrap() + 1);
                prop_assert_eq!(&together, &Pet { id: PetId(alone.id.0 + count), ..alone });
                prop_assert_eq!(store.pets.find_pet(together.id).await.unwrap(), Some(together));
            }
            let keys = |round| {
                let key = |index| IdempotencyKey::parse(&format!("{round}/{index}")).unwrap().unwrap();
                (0..stored.len()).map(key).collect::<Vec<_>>()
            };
            let (keys, other_keys) = (keys("alone"), keys("together"));
            let create =
                async |(key, new)| store.pets.insert_pet_once(key, new, UnixMillis(1)).await.unwrap();
            let (alone, repeated) = alone_and_together(keys.iter().zip(new()).map(&create)).await;
            let together = join_all(other_keys.iter().zip(new()).map(&create)).await;
            let results = new().zip(alone).zip(repeated.into_iter().zip(together));
            for ((new, alone), (repeated, together)) in results {
                prop_assert_eq!(&alone.pet, &new.clone().with_id(alone.pet.id));
                prop_assert_eq!(&together.pet, &new.with_id(together.pet.id));
                prop_assert_eq!((alone.replayed, repeated.replayed, together.replayed), (false, true, false));
                prop_assert_eq!(&repeated.pet, &alone.pet);
                for pet in [alone.pet, together.pet] {
                    prop_assert_eq!(store.pets.find_pet(pet.id).await.unwrap(), Some(pet));
                }
            }
            let found = ids.iter().map(|id| store.pets.find_pet(PetId(*id)));
            let (alone, together) = alone_and_together(found).await;
            for (alone, together) in alone.into_iter().zip(together) {
                prop_assert_eq!(alone.unwrap(), together.unwrap());
            }
            let pages = lists.iter().map(|(after, size, status)| {
                let size = PageSize::parse(*size).unwrap();
                store.pets.list_pets(ListPets { size, after: Some(PetId(*after)), status: *status })
            });
            let (alone, together) = alone_and_together(pages).await;
            for (alone, together) in alone.into_iter().zip(together) {
                prop_assert_eq!(alone.unwrap(), together.unwrap());
            }
            store.database().close().await;
            Ok(())
        })?;
    }

    #[test]
    fn pages_cover_every_pet_exactly_once(
        stored in proptest::collection::vec(statuses(), 0..70),
        sizes in proptest::collection::vec(1..30_i32, 1..4),
        filter in statuses(),
    ) {
        Runtime::new().unwrap().block_on(async {
            let (store, _folder) = new_store().await;
            let mut expected = Vec::new();
            for (index, status) in stored.into_iter().enumerate() {
                let pet = store.pets.insert_pet(new_pet(&index.to_string(), status)).await.unwrap();
                if filter.is_none() || filter == status {
                    expected.push(pet);
                }
            }
            prop_assert_eq!(walk(&store, filter, &sizes).await, expected);
            store.database().close().await;
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn an_invalid_row_is_an_internal_error() {
    let (store, _folder) = new_store().await;
    let row = pet::ActiveModel {
        name: Set("Rex".into()),
        category_id: Set(1),
        status: Set(Some(9)),
        ..Default::default()
    };
    let row = pet::Entity::insert(row).exec_with_returning(store.database().writer()).await.unwrap();
    assert_eq!((PetName::stored(row.name.clone()).as_str(), row.category_id), ("Rex", 1));
    assert!(matches!(store.pets.find_pet(PetId(row.id)).await, Err(PetStoreError::Bug(_))));
}

#[tokio::test]
async fn concurrent_batches_keep_their_order() {
    let (store, _home) = new_store().await;
    let batches = (0..8).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            store.pets.insert_pets(batch((0..300).map(|index| format!("{number}-{index}")))).await.unwrap()
        })
    });
    let mut ids = HashSet::new();
    for (number, batch) in batches.collect::<Vec<_>>().into_iter().enumerate() {
        let pets = batch.await.unwrap();
        for (index, pet) in pets.iter().enumerate() {
            assert_eq!(pet.name.as_str(), format!("{number}-{index}"));
            ids.insert(pet.id);
        }
    }
    assert_eq!(ids.len(), 2_400);
}
