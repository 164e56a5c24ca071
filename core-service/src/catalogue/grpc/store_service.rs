//! `petstore.v1.StoreService`.

use petstore_clock::UnixMillis;
use petstore_proto::v1::{
    self, AdvanceOrderRequest, AdvanceOrderResponse, GetOrderRequest, GetOrderResponse, ListOrdersRequest,
    ListOrdersResponse, PlaceOrderRequest, PlaceOrderResponse, store_service_server::StoreService,
};

use crate::{
    Core,
    catalogue::{ListOrders, NewOrder, Order, OrderId, OrderStatus},
    domain::PetStoreError,
    grpc::call::{CallResult, service},
};

service! {
    StoreService {
        place_order PLACE_ORDER PlaceOrderRequest PlaceOrderResponse place;
        get_order GET_ORDER GetOrderRequest GetOrderResponse get;
        list_orders LIST_ORDERS ListOrdersRequest ListOrdersResponse page;
        advance_order ADVANCE_ORDER AdvanceOrderRequest AdvanceOrderResponse advance;
    }
}

pub(crate) async fn page(core: &Core, request: ListOrdersRequest) -> CallResult<ListOrdersResponse> {
    let list = ListOrders::parse(request.page_size, &request.page_token)?;
    let page = core.store.catalogue.list_orders(list).await?;
    Ok(ListOrdersResponse {
        orders: page.rows.iter().map(wire).collect(),
        next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
    })
}

async fn place(core: &Core, request: PlaceOrderRequest) -> CallResult<PlaceOrderResponse> {
    let order = request.order.unwrap_or_default(); // an empty order fails with all its missing members
    let new = NewOrder::parse(order.pet_id, order.quantity, order.ship_date)?;
    let order = core.store.catalogue.insert_order(new).await?;
    Ok(PlaceOrderResponse { order: Some(wire(&order)) })
}

async fn get(core: &Core, request: GetOrderRequest) -> CallResult<GetOrderResponse> {
    let id = OrderId(request.order_id);
    let order = core.store.catalogue.find_order(id).await?.ok_or(PetStoreError::OrderNotFound(id.0))?;
    Ok(GetOrderResponse { order: Some(wire(&order)) })
}

async fn advance(core: &Core, request: AdvanceOrderRequest) -> CallResult<AdvanceOrderResponse> {
    let to = status(request.status)?;
    let order = core.store.catalogue.advance_order(OrderId(request.order_id), to).await?;
    Ok(AdvanceOrderResponse { order: Some(wire(&order)) })
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
