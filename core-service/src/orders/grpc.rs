//! `petstore.v1.StoreService`.

use petstore_clock::UnixMillis;
use petstore_proto::{
    lists,
    rpc::{ADVANCE_ORDER, GET_ORDER, LIST_ORDERS, PLACE_ORDER},
    v1::{
        self, AdvanceOrderRequest, AdvanceOrderResponse, GetOrderRequest, GetOrderResponse,
        ListOrdersRequest, ListOrdersResponse, PlaceOrderRequest, PlaceOrderResponse,
        store_service_server::StoreService,
    },
};
use tonic::{Request, Response, Result, async_trait};

use super::{NewOrder, Order, OrderId, OrderStatus};
use crate::{Core, errors::PetStoreError, grpc::CallResult, pages::PageRequest};

#[async_trait]
impl StoreService for Core {
    async fn place_order(&self, request: Request<PlaceOrderRequest>) -> Result<Response<PlaceOrderResponse>> {
        self.answer(PLACE_ORDER, request, |request| async move {
            // An empty order fails with all its missing members.
            let order = request.order.unwrap_or_default();
            let new = NewOrder::parse(order.pet_id, order.quantity, order.ship_date)?;
            let order = self.store.insert_order(new).await?;
            Ok(PlaceOrderResponse { order: Some(wire(&order)) })
        })
        .await
    }

    async fn get_order(&self, request: Request<GetOrderRequest>) -> Result<Response<GetOrderResponse>> {
        self.answer(GET_ORDER, request, |request| async move {
            let id = OrderId(request.order_id);
            let order = self.store.find_order(id).await?.ok_or_else(|| id.not_found())?;
            Ok(GetOrderResponse { order: Some(wire(&order)) })
        })
        .await
    }

    async fn list_orders(&self, request: Request<ListOrdersRequest>) -> Result<Response<ListOrdersResponse>> {
        self.answer(LIST_ORDERS, request, |request| async move {
            let list = PageRequest::parse(lists::ORDERS, request.page_size, &request.page_token)?;
            let page = self.store.list_orders(list).await?;
            Ok(ListOrdersResponse {
                orders: page.rows.iter().map(wire).collect(),
                next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
            })
        })
        .await
    }

    async fn advance_order(
        &self,
        request: Request<AdvanceOrderRequest>,
    ) -> Result<Response<AdvanceOrderResponse>> {
        self.answer(ADVANCE_ORDER, request, |request| async move {
            let to = status(request.status)?;
            let order = self.store.advance_order(OrderId(request.order_id), to).await?;
            Ok(AdvanceOrderResponse { order: Some(wire(&order)) })
        })
        .await
    }
}

fn status(number: i32) -> CallResult<OrderStatus> {
    OrderStatus::from_number(number).ok_or_else(|| PetStoreError::Invalid(OrderStatus::UNKNOWN.into()))
}

fn wire(order: &Order) -> v1::Order {
    v1::Order {
        id: order.id.0,
        pet_id: order.pet_id.0,
        quantity: order.quantity.get(),
        ship_date: order.ship_date.map(UnixMillis::to_timestamp),
        status: order.status.number().into(),
        complete: order.status.is_complete(),
    }
}
