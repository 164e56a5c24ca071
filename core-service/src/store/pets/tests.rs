use proptest::{prelude::*, sample::select};
use tokio::runtime::Runtime;

use super::*;
use crate::{
    domain::{CategoryId, PageSize, PetName},
    store::test_support::new_store,
};

fn new_pet(name: &str, status: Option<PetStatus>) -> NewPet {
    NewPet::parse(name.into(), Some(7), Ok(status)).unwrap()
}

fn statuses() -> impl Strategy<Value = Option<PetStatus>> {
    proptest::option::of(select(&PetStatus::ALL[..]))
}

#[tokio::test]
async fn an_animal_comes_back_as_it_went_in() {
    let (store, _folder) = new_store().await;
    for (name, category_id, status) in [
        ("Rex", i64::MAX, None),
        (" e\u{301}\u{1F415} ", i64::MIN, Some(PetStatus::Available)),
        ("'; DROP TABLE pets; --", 0, Some(PetStatus::Pending)),
        (&"\u{1F415}".repeat(255), -1, Some(PetStatus::Sold)),
    ] {
        let new = NewPet::parse(name.into(), Some(category_id), Ok(status)).unwrap();
        let pet = store.insert_pet(new.clone()).await.unwrap();
        let NewPet { name, category_id, status } = new;
        assert_eq!(pet, Pet { id: pet.id, name, category_id, status });
        assert_eq!(store.find_pet(pet.id).await.unwrap(), Some(pet));
    }
}

#[tokio::test]
async fn identifiers_ascend_from_1_and_are_never_assigned_twice() {
    let (store, _folder) = new_store().await;
    for id in 1..=3 {
        assert_eq!(store.insert_pet(new_pet("Rex", None)).await.unwrap().id, PetId(id));
    }
    pet::Entity::delete_by_id(3).exec(&store.writer).await.unwrap();
    assert_eq!(store.insert_pet(new_pet("Rex", None)).await.unwrap().id, PetId(4));
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let (store, _folder) = new_store().await;
    for id in [i64::MIN, -1, 0, 1, i64::MAX] {
        assert_eq!(store.find_pet(PetId(id)).await.unwrap(), None);
    }
    let list = ListPets { size: PageSize::DEFAULT, after: None, status: None };
    assert_eq!(store.list_pets(list).await.unwrap(), Page { rows: vec![], next: None });
}

#[tokio::test]
async fn a_walk_that_began_meets_what_was_added_behind_its_position() {
    let (store, _folder) = new_store().await;
    for _ in 0..4 {
        store.insert_pet(new_pet("Rex", None)).await.unwrap();
    }
    let size = PageSize::parse(2).unwrap();
    let first = store.list_pets(ListPets { size, after: None, status: None }).await.unwrap();
    store.insert_pet(new_pet("Late", None)).await.unwrap();
    let after = first.next.map(|token| PetId(token.last_id));
    let rest = store.list_pets(ListPets { size: PageSize::MAX, after, status: None }).await.unwrap();
    let ids: Vec<_> = rest.rows.iter().map(|pet| pet.id.0).collect();
    assert_eq!((ids, rest.next), (vec![3, 4, 5], None));
}

/// Walks all pages, with the sizes in turn, by way of the written token.
async fn walk(store: &Store, status: Option<PetStatus>, sizes: &[i32]) -> Vec<Pet> {
    let mut walked = Vec::new();
    let mut token = String::new();
    for &size in sizes.iter().cycle().take(100) {
        let list = ListPets::parse(size, &token, Ok(status)).unwrap();
        let page = store.list_pets(list).await.unwrap();
        assert!(page.rows.len() <= list.size.get());
        walked.extend(page.rows);
        match page.next {
            Some(next) => token = next.to_string(),
            None => break,
        }
    }
    walked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_pages_together_are_the_list_and_each_animal_is_on_one(
        stored in proptest::collection::vec(statuses(), 0..70),
        sizes in proptest::collection::vec(1..30_i32, 1..4),
        filter in statuses(),
    ) {
        Runtime::new().unwrap().block_on(async {
            let (store, _folder) = new_store().await;
            let mut expected = Vec::new();
            for (index, status) in stored.into_iter().enumerate() {
                let pet = store.insert_pet(new_pet(&index.to_string(), status)).await.unwrap();
                if filter.is_none() || filter == status {
                    expected.push(pet);
                }
            }
            prop_assert_eq!(walk(&store, filter, &sizes).await, expected);
            store.close().await;
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_row_that_no_release_of_ours_wrote_is_a_bug_and_not_a_wrong_answer() {
    let (store, _folder) = new_store().await;
    let row = pet::ActiveModel {
        name: Set("Rex".into()),
        category_id: Set(1),
        status: Set(Some(9)),
        ..Default::default()
    };
    let row = pet::Entity::insert(row).exec_with_returning(&store.writer).await.unwrap();
    assert_eq!(
        (PetName::stored(row.name.clone()).as_str(), CategoryId(row.category_id)),
        ("Rex", CategoryId(1))
    );
    assert!(matches!(store.find_pet(PetId(row.id)).await, Err(PetStoreError::Bug(_))));
}
