use futures_util::future::join_all;
use petstore_test_servers::Home;

use super::*;
use crate::{
    pets::{NewPet, PetId},
    store::{Store, test_support::new_store},
};

async fn with_pet() -> (Store, Home, PetId) {
    let (store, home) = new_store().await;
    let pet = store.pets.insert_pet(NewPet::named("Rex")).await.unwrap();
    (store, home, pet.id)
}

fn order_of(pet: PetId) -> NewOrder {
    NewOrder::parse(pet.0, 1, None).unwrap()
}

#[tokio::test]
async fn exactly_one_of_many_concurrent_calls_advances_the_order() {
    let (store, _folder, pet) = with_pet().await;
    let id = store.insert_order(order_of(pet)).await.unwrap().id;
    for to in [OrderStatus::Approved, OrderStatus::Delivered] {
        let taken = join_all((0..8).map(|_| store.advance_order(id, to))).await;
        assert_eq!(taken.iter().filter(|result| result.is_ok()).count(), 1, "{taken:?}");
    }
    let missing = store.advance_order(OrderId(9), OrderStatus::Approved).await.unwrap_err();
    assert!(matches!(missing, PetStoreError::NotFound { id: 9, .. }), "{missing:?}");
}
