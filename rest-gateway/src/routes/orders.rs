//! Handler of `/v1/store/orders`: the orders (docs/contract.md, 2.5).

use axum::{extract::Request, response::Response};
use petstore_proto::{
    lists,
    v1::{ListOrdersRequest, Order},
};
use serde::Serialize;

use super::paging::{AnsweredPage, List, PageRequest};
use crate::{
    error::ApiError,
    gateway::GatewayState,
    json::{array_body, word},
    request_id::Caller,
    unknown_input::UnknownInput,
};

/// Handles `GET /v1/store/orders`: a page of orders. They belong to the store, and every valid key sees all
/// of them.
pub(super) async fn list(
    gateway: &GatewayState,
    caller: &Caller,
    request: Request,
    unknown: &mut UnknownInput,
) -> Result<Response, ApiError> {
    let fetch = |PageRequest { page_size, page_token, .. }| async move {
        let request = ListOrdersRequest { page_size, page_token };
        let page = gateway.core.list_orders(request, caller).await?;
        let body = orders_body(&page.orders);
        Ok(AnsweredPage { body, next_page_token: page.next_page_token, filter: 0 })
    };
    List { number: lists::ORDERS, filter: None }.answer(request.uri(), unknown, fetch).await
}

/// Words of `OrderStatus`. The core never omits the status.
const STATUSES: [&str; 3] = ["placed", "approved", "delivered"];

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
            status: word(&STATUSES, order.status),
            complete: order.complete,
        }
    }
}

/// Returns an array of orders.
fn orders_body(orders: &[Order]) -> Vec<u8> {
    array_body(orders.iter().map(OrderBody::from))
}

#[cfg(test)]
mod tests {
    use petstore_proto::v1::OrderStatus;

    use super::*;

    #[test]
    fn every_status_of_the_contract_has_its_word() {
        let names = (1..).map_while(|number| OrderStatus::try_from(number).ok()).map(|it| it.as_str_name());
        let words: Vec<_> =
            names.map(|name| name.trim_start_matches("ORDER_STATUS_").to_lowercase()).collect();
        assert_eq!(words, STATUSES);
    }

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
