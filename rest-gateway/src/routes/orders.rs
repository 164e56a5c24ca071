//! Handler of `/v1/store/orders`: the orders (docs/contract.md, 2.5).

use axum::{extract::Request, response::Response};
use petstore_proto::{
    lists,
    v1::{ListOrdersRequest, Order, OrderStatus},
};
use serde::Serialize;

use super::paging::{self, AnsweredPage, PageRequest, Query};
use crate::{core_calls::call, error::ApiError, gateway::GatewayState, request_id::Caller};

/// Handles `GET /v1/store/orders`: a page of orders. They belong to the store, and every valid key sees all
/// of them.
pub(super) async fn list(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let query = Query { status: Ok(None), ..Query::parse(request.uri().query().unwrap_or_default()) };
    let fetch = |PageRequest { page_size, page_token, .. }| async move {
        let request = ListOrdersRequest { page_size, page_token };
        let page = call(&gateway.core, request, caller).await?;
        let body = orders_body(&page.orders);
        Ok(AnsweredPage { body, next_page_token: page.next_page_token, status: None })
    };
    paging::list("/v1/store/orders", |_| lists::ORDERS, query, fetch).await
}

/// Order object. `shipDate` is RFC 3339 in UTC, and omitted if there is none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderBody {
    id: i64,
    pet_id: i64,
    quantity: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ship_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    complete: bool,
}

impl From<&Order> for OrderBody {
    fn from(order: &Order) -> Self {
        Self {
            id: order.id,
            pet_id: order.pet_id,
            quantity: order.quantity,
            ship_date: order.ship_date.map(|date| date.to_string()),
            status: OrderStatus::try_from(order.status).ok().and_then(status_word),
            complete: order.complete,
        }
    }
}

/// Returns an array of orders.
fn orders_body(orders: &[Order]) -> Vec<u8> {
    let orders: Vec<OrderBody> = orders.iter().map(OrderBody::from).collect();
    // Serialising strings and numbers into memory does not fail.
    serde_json::to_vec(&orders).unwrap_or_default()
}

/// Returns the word for a status. The core never omits it.
const fn status_word(status: OrderStatus) -> Option<&'static str> {
    match status {
        OrderStatus::Unspecified => None,
        OrderStatus::Placed => Some("placed"),
        OrderStatus::Approved => Some("approved"),
        OrderStatus::Delivered => Some("delivered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_its_members_and_leaves_out_a_ship_date_that_was_not_given() {
        let mut order = Order { id: 1, pet_id: i64::MAX, quantity: 2, ..Order::default() };
        order.set_status(OrderStatus::Placed);
        let mut later = Order { id: 2, pet_id: 7, quantity: 1, complete: true, ..Order::default() };
        later.set_status(OrderStatus::Delivered);
        let date = later.ship_date.get_or_insert_default();
        (date.seconds, date.nanos) = (1_795_176_000, 500_000_000);
        let expected = [
            r#"[{"id":1,"petId":9223372036854775807,"quantity":2,"status":"placed","complete":false},"#,
            r#"{"id":2,"petId":7,"quantity":1,"shipDate":"2026-11-20T12:00:00.500Z","#,
            r#""status":"delivered","complete":true}]"#,
        ];
        assert_eq!(String::from_utf8(orders_body(&[order, later])).unwrap(), expected.concat());
        assert_eq!(orders_body(&[]), b"[]");
    }
}
