//! `petstore.v1.StoreService`.

use petstore_proto::v1::{
    self, AdvanceOrderRequest, AdvanceOrderResponse, GetOrderRequest, GetOrderResponse, ListOrdersRequest,
    ListOrdersResponse, PlaceOrderRequest, PlaceOrderResponse, store_service_server::StoreService,
};
use tonic::{Request, Response, Status};

use super::methods::{ADVANCE_ORDER, GET_ORDER, LIST_ORDERS, PLACE_ORDER};
use crate::{
    Core,
    domain::{ListOrders, NewOrder, Order, OrderId, OrderStatus, PetStoreError},
};

/// Work of the method that can also be called in batches.
impl Core {
    pub(super) async fn page_of_orders(
        &self,
        request: ListOrdersRequest,
    ) -> Result<ListOrdersResponse, PetStoreError> {
        let list = ListOrders::parse(request.page_size, &request.page_token)?;
        let page = self.store.list_orders(list).await?;
        Ok(ListOrdersResponse {
            orders: page.rows.iter().map(wire).collect(),
            next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
        })
    }
}

#[tonic::async_trait]
impl StoreService for Core {
    async fn place_order(
        &self,
        request: Request<PlaceOrderRequest>,
    ) -> Result<Response<PlaceOrderResponse>, Status> {
        self.answer(&PLACE_ORDER, request, |request| async move {
            let order = self.store.insert_order(new_order(&request)?).await?;
            Ok(PlaceOrderResponse { order: Some(wire(&order)) })
        })
        .await
    }

    async fn get_order(
        &self,
        request: Request<GetOrderRequest>,
    ) -> Result<Response<GetOrderResponse>, Status> {
        self.answer(&GET_ORDER, request, |request| async move {
            let id = OrderId(request.order_id);
            let order = self.store.find_order(id).await?.ok_or(PetStoreError::OrderNotFound(id))?;
            Ok(GetOrderResponse { order: Some(wire(&order)) })
        })
        .await
    }

    async fn list_orders(
        &self,
        request: Request<ListOrdersRequest>,
    ) -> Result<Response<ListOrdersResponse>, Status> {
        self.answer(&LIST_ORDERS, request, |request| self.page_of_orders(request)).await
    }

    async fn advance_order(
        &self,
        request: Request<AdvanceOrderRequest>,
    ) -> Result<Response<AdvanceOrderResponse>, Status> {
        self.answer(&ADVANCE_ORDER, request, |request| async move {
            let to = status(request.status)?;
            let order = self.store.advance_order(OrderId(request.order_id), to).await?;
            Ok(AdvanceOrderResponse { order: Some(wire(&order)) })
        })
        .await
    }
}

fn new_order(request: &PlaceOrderRequest) -> Result<NewOrder, PetStoreError> {
    let order = request.order.unwrap_or_default(); // an empty order fails with all its missing members
    let ship_date = order.ship_date.map(|date| (date.seconds, date.nanos));
    NewOrder::parse(order.pet_id, order.quantity, ship_date)
}

fn status(number: i32) -> Result<OrderStatus, PetStoreError> {
    match v1::OrderStatus::try_from(number) {
        Ok(v1::OrderStatus::Placed) => Ok(OrderStatus::Placed),
        Ok(v1::OrderStatus::Approved) => Ok(OrderStatus::Approved),
        Ok(v1::OrderStatus::Delivered) => Ok(OrderStatus::Delivered),
        Ok(v1::OrderStatus::Unspecified) | Err(_) => Err(PetStoreError::Invalid(OrderStatus::UNKNOWN.into())),
    }
}

fn wire(order: &Order) -> v1::Order {
    let status = match order.status {
        OrderStatus::Placed => v1::OrderStatus::Placed,
        OrderStatus::Approved => v1::OrderStatus::Approved,
        OrderStatus::Delivered => v1::OrderStatus::Delivered,
    };
    v1::Order {
        id: order.id.0,
        pet_id: order.pet_id.0,
        quantity: order.quantity.get(),
        ship_date: order.ship_date.map(|date| timestamp(date.get().0)),
        status: status.into(),
        complete: order.status.is_complete(),
    }
}

/// Converts Unix milliseconds. Up to the year 9999 they fit both fields.
fn timestamp(millis: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(millis / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(millis % 1_000 * 1_000_000).unwrap_or_default(),
    }
}
