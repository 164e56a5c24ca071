//! Orders: the operation of `/v1/store/orders`, and their JSON (docs/contract.md, 2.5).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use petstore_proto::{
    lists,
    rpc::LIST_ORDERS,
    v1::{ListOrdersRequest, Order},
};
use serde::Serialize;

use crate::{
    error::ApiError,
    extract::Resource,
    gateway::GatewayState,
    json::{array_body, word},
    page_query::PageQuery,
    request::Caller,
};

impl Resource for Order {
    const LIST: u8 = lists::ORDERS;
}

/// Handles `GET /v1/store/orders`: a page of orders. They belong to the store, and every valid key sees all
/// of them.
pub(crate) async fn list_orders(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    query: PageQuery<Order>,
) -> Result<Response, ApiError> {
    let request = ListOrdersRequest { page_size: query.page_size, page_token: query.page_token.clone() };
    let page =
        gateway.core.call(LIST_ORDERS, request, &caller, |core, it| core.orders.list_orders(it)).await?;
    let body = array_body(page.orders.iter().map(OrderBody::from));
    Ok(query.page(body, &page.next_page_token, 0))
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
}
