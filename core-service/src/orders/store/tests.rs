use futures_util::future::join_all;
use petstore_test_servers::Home;

use super::*;
use crate::{
    pages::PageSize,
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
async fn an_order_is_stored_exactly() {
    let (store, _folder, pet) = with_pet().await;
    for (quantity, ship_date) in [(1, None), (i32::MAX, Some(UnixMillis(0))), (3, Some(UnixMillis::LAST))] {
        let new = NewOrder::parse(pet.0, quantity, ship_date.map(UnixMillis::to_timestamp)).unwrap();
        let order = store.insert_order(new.clone()).await.unwrap();
        let NewOrder { pet_id, quantity, ship_date } = new;
        let status = OrderStatus::Placed;
        assert_eq!(order, Order { id: order.id, pet_id, quantity, ship_date, status });
        assert_eq!(store.find_order(order.id).await.unwrap(), Some(order));
    }
    assert_eq!(store.find_order(OrderId(4)).await.unwrap(), None);
}

#[tokio::test]
async fn an_order_of_an_unknown_pet_is_refused() {
    let (store, _folder, _) = with_pet().await;
    let refusal = store.insert_order(order_of(PetId(2))).await.unwrap_err();
    assert!(matches!(refusal, PetStoreError::NotFound { id: 2, .. }), "{refusal:?}");
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

#[tokio::test]
async fn pages_cover_the_list_exactly_once() {
    let (store, _folder, pet) = with_pet().await;
    for _ in 0..7 {
        store.insert_order(order_of(pet)).await.unwrap();
    }
    let (mut after, mut seen) = (None, Vec::new());
    for _ in 0..4 {
        let list = ListOrders { size: PageSize::parse(3).unwrap(), after };
        let page = store.list_orders(list).await.unwrap();
        seen.extend(page.rows.iter().map(|order| order.id.0));
        match page.next {
            Some(token) => after = Some(OrderId(token.last_id)),
            None => break,
        }
    }
    assert_eq!(seen, (1..=7).collect::<Vec<_>>());
}
