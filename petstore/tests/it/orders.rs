//! `GET /v1/store/orders`, and orders on gRPC, where they are placed and advanced.

use petstore_testkit::{
    Plan, TestShop,
    grpc::{
        self, Code, Status, assert_refused,
        pb::{
            AdvanceOrderRequest, GetOrderRequest, ListOrdersRequest, NewOrder, Order, OrderStatus,
            PlaceOrderRequest,
        },
    },
};
use prost_types::Timestamp;
use serde_json::json;

use crate::pets::{add, ids, link, next_link};

const ORDERS: &str = "/v1/store/orders";

#[tokio::test]
async fn an_order_placed_over_grpc_is_visible_to_every_key_with_exactly_its_members() {
    let shop = TestShop::open().await;
    add(&shop.client_on(Plan::Free).await, 1).await;
    let ship_date = Some(Timestamp { seconds: 1_795_176_000, nanos: 250_999_999 });
    let placed = place(&shop, NewOrder { pet_id: 1, quantity: 2, ship_date }).await.unwrap();
    let kept = Some(Timestamp { seconds: 1_795_176_000, nanos: 250_000_000 });
    let expected = Order { id: 1, pet_id: 1, quantity: 2, ship_date: kept, status: 1, complete: false };
    assert_eq!((&placed, placed.status()), (&expected, OrderStatus::Placed));
    place(&shop, NewOrder { pet_id: 1, quantity: i32::MAX, ship_date: None }).await.unwrap();
    assert_eq!(get(&shop, 1).await.unwrap(), placed);

    let listed = json!([
        {"id": 1, "petId": 1, "quantity": 2, "shipDate": "2026-11-20T12:00:00.250Z", "status": "placed",
         "complete": false},
        {"id": 2, "petId": 1, "quantity": i32::MAX, "status": "placed", "complete": false},
    ]);
    for client in [shop.client_on(Plan::Free).await, shop.client_on(Plan::Business).await] {
        let answer = client.get(ORDERS).await;
        answer.assert_status(200);
        assert_eq!(answer.json(), listed, "{answer:?}");
    }
}

#[tokio::test]
async fn an_order_advances_only_from_placed_to_approved_to_delivered() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    crate::pets::add_with_status(&client, 1, "available").await;
    place(&shop, one_of(1)).await.unwrap();
    for (wrong_ways, next, complete) in [
        ([OrderStatus::Placed, OrderStatus::Delivered], OrderStatus::Approved, false),
        ([OrderStatus::Placed, OrderStatus::Approved], OrderStatus::Delivered, true),
    ] {
        for to in wrong_ways {
            let refused = advance(&shop, 1, to.into()).await;
            assert_refused(refused, Code::FailedPrecondition, "INVALID_ORDER_TRANSITION");
        }
        let order = advance(&shop, 1, next.into()).await.unwrap();
        assert_eq!((order.status(), order.complete), (next, complete));
        assert_eq!(get(&shop, 1).await.unwrap(), order);
    }
    for to in [OrderStatus::Placed, OrderStatus::Approved, OrderStatus::Delivered] {
        let refused = advance(&shop, 1, to.into()).await.unwrap_err();
        assert!(refused.message().contains("is delivered"), "{refused:?}");
    }
    assert_eq!(client.get("/v1/pets/1").await.json()["status"], "available", "an order changes no pet");
}

#[tokio::test]
async fn an_order_needs_a_pet_that_exists_and_a_quantity() {
    let shop = TestShop::open().await;
    add(&shop.client_on(Plan::Free).await, 1).await;
    for pet_id in [2, i64::MAX] {
        assert_refused(place(&shop, one_of(pet_id)).await, Code::NotFound, "PET_NOT_FOUND");
    }
    let early = Some(Timestamp { seconds: -1, nanos: 0 });
    for (order, named) in [
        (
            NewOrder { pet_id: -1, quantity: 0, ship_date: early },
            ["petId", "quantity", "shipDate"].as_slice(),
        ),
        (NewOrder { pet_id: 0, quantity: 1, ship_date: None }, &["petId"]),
        (NewOrder { pet_id: 1, quantity: i32::MIN, ship_date: None }, &["quantity"]),
    ] {
        let refused = place(&shop, order).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "VALIDATION_FAILED"), named);
    }
    assert_eq!(shop.client_on(Plan::Free).await.get(ORDERS).await.text(), "[]", "nothing was placed");
}

#[tokio::test]
async fn an_order_that_does_not_exist_is_not_found_and_an_unknown_status_is_refused() {
    let shop = TestShop::open().await;
    for id in [i64::MIN, 0, 1, i64::MAX] {
        assert_refused(get(&shop, id).await, Code::NotFound, "ORDER_NOT_FOUND");
        assert_refused(advance(&shop, id, 2).await, Code::NotFound, "ORDER_NOT_FOUND");
    }
    for status in [0, 4, -1] {
        let refused = advance(&shop, 1, status).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "VALIDATION_FAILED"), ["status"]);
    }
}

#[tokio::test]
async fn orders_are_paged_as_pets_are() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Business).await;
    add(&client, 1).await;
    for _ in 0..23 {
        place(&shop, one_of(1)).await.unwrap();
    }
    assert_eq!(ids(&client.get(ORDERS).await).len(), 20);
    let (mut next, mut seen, mut pages) = (Some(format!("{ORDERS}?limit=9&status=lost")), Vec::new(), 0);
    while let Some(path) = next {
        let answer = client.get(&path).await;
        answer.assert_status(200);
        assert_eq!(link(&answer, "first").is_some(), pages > 0, "{answer:?}");
        seen.extend(ids(&answer));
        next = next_link(&answer);
        pages += 1;
    }
    assert_eq!((seen, pages), ((1..=23).collect::<Vec<_>>(), 3));

    let mut orders = grpc::store_service(shop.grpc_addr()).await;
    let page_token = client.get(&format!("{ORDERS}?limit=22")).await.header("x-next-cursor").to_owned();
    let page = orders.list_orders(ListOrdersRequest { page_size: 5, page_token }).await.unwrap().into_inner();
    assert_eq!(page.orders.iter().map(|order| order.id).collect::<Vec<_>>(), [23]);
    let refused = orders.list_orders(ListOrdersRequest { page_size: -1, ..Default::default() }).await;
    assert_eq!(assert_refused(refused, Code::InvalidArgument, "INVALID_PARAMETER"), ["pageSize"]);
}

fn one_of(pet_id: i64) -> NewOrder {
    NewOrder { pet_id, quantity: 1, ship_date: None }
}

async fn place(shop: &TestShop, order: NewOrder) -> Result<Order, Status> {
    let request = PlaceOrderRequest { order: Some(order) };
    let answer = grpc::store_service(shop.grpc_addr()).await.place_order(request).await?;
    Ok(answer.into_inner().order.expect("an order"))
}

async fn get(shop: &TestShop, order_id: i64) -> Result<Order, Status> {
    let answer = grpc::store_service(shop.grpc_addr()).await.get_order(GetOrderRequest { order_id }).await?;
    Ok(answer.into_inner().order.expect("an order"))
}

async fn advance(shop: &TestShop, order_id: i64, status: i32) -> Result<Order, Status> {
    let request = AdvanceOrderRequest { order_id, status };
    let answer = grpc::store_service(shop.grpc_addr()).await.advance_order(request).await?;
    Ok(answer.into_inner().order.expect("an order"))
}
