//! `GET /v1/store/orders`: a page of orders. They are the store's: every valid key sees all of them.

use axum::response::Response;
use http::Uri;
use petstore_proto::v1::ListOrdersRequest;

use crate::{
    caller::Caller,
    error::{ApiError, responses},
    gateway::GatewayState,
    json::order::orders_body,
    operation::{
        Description, Success,
        description::{Link, ORDERS},
    },
    routes::paging::{self, AnsweredPage, PageRequest, Query},
};

/// What the OpenAPI document says of it.
pub(in crate::routes) const DESCRIPTION: Description = Description {
    tag: ORDERS,
    summary: "List orders",
    text: "Experimental: it may change or go away at any time. A page of the store's orders in ascending \
           order of their identifier; every key sees all of them. Orders are placed by the store's own \
           systems, and never change the status of an animal.",
    parameters: &["Limit", "Cursor"],
    request_body: None,
    success: Success {
        status: "200",
        description: "A page of orders; an empty array when there are none.",
        headers: paging::HEADERS,
        schema: "Orders",
        example: None,
        link: Some(Link { name: "nextPage", target: || paging::next_page("listOrders") }),
    },
    failures: &[&responses::INVALID_LIST],
};

pub(crate) async fn list(gateway: &GatewayState, caller: &Caller, uri: &Uri) -> Result<Response, ApiError> {
    let query = Query { status: Ok(None), ..Query::parse(uri.query().unwrap_or_default()) };
    paging::list("/v1/store/orders", query, |PageRequest { page_size, page_token, .. }| async move {
        let request = ListOrdersRequest { page_size, page_token };
        let page = gateway.core.call(request, caller).await?;
        Ok(AnsweredPage {
            body: orders_body(&page.orders),
            next_page_token: page.next_page_token,
            status: None,
        })
    })
    .await
}
