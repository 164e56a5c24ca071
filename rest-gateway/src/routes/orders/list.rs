//! `GET /v1/store/orders`: a page of orders. They are the store's: every valid key sees all of them.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use petstore_proto::v1::ListOrdersRequest;

use crate::{
    caller::Caller,
    error::ApiError,
    gateway::GatewayState,
    json::orders_body,
    routes::paging::{self, Page, PageRequest, Query},
};

pub(crate) async fn list(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (gateway, caller) = (&gateway, &caller);
    let query = Query { status: Ok(None), ..Query::parse(uri.query().unwrap_or_default()) };
    paging::list("/v1/store/orders", query, |PageRequest { page_size, page_token, .. }| async move {
        let request = ListOrdersRequest { page_size, page_token };
        let page = gateway.core.call(request, caller).await?;
        Ok(Page { body: orders_body(&page.orders), next_page_token: page.next_page_token, status: None })
    })
    .await
}
