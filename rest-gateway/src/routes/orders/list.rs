//! `GET /v1/store/orders`: a page of orders. They are the store's: every valid key sees all of them.

use std::{borrow::Cow, sync::Arc};

use axum::{extract::State, response::Response};
use http::Uri;
use petstore_proto::v1::{ListOrdersRequest, ListOrdersResponse};

use crate::{
    caller::Caller,
    core_client,
    error::ApiError,
    gateway::GatewayState,
    json::orders_body,
    routes::paging::{self, ListUrl},
};

pub(crate) async fn list(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let [limit, cursor] = paging::given(uri.query().unwrap_or_default(), ["limit", "cursor"]);
    let (limit, cursor) = match (paging::limit(limit), paging::cursor(cursor)) {
        (Ok(limit), Ok(cursor)) => (limit, cursor),
        (limit, cursor) => return Err(refuse(&gateway, &caller, limit.err(), cursor).await),
    };
    let is_first = cursor.is_none();
    let request = ListOrdersRequest {
        page_size: limit.map_or(0, i32::from), // 0: the core's default
        page_token: cursor.map(String::from).unwrap_or_default(),
    };
    let page = ask(&gateway, &caller, request).await?;
    let list = ListUrl::new("/v1/store/orders").with("limit", limit);
    Ok(paging::answer(&list, is_first, orders_body(&page.orders), &page.next_page_token))
}

async fn ask(
    gateway: &GatewayState,
    caller: &Caller,
    request: ListOrdersRequest,
) -> Result<ListOrdersResponse, ApiError> {
    core_client::ask(request, caller, &gateway.retries, |request| {
        let mut core = gateway.orders.clone();
        async move { core.list_orders(request).await }
    })
    .await
}

/// Only the core can tell a good cursor from a bad one, so a cursor beside a wrong limit is put before it too.
async fn refuse(
    gateway: &GatewayState,
    caller: &Caller,
    limit: Option<String>,
    cursor: Result<Option<Cow<'_, str>>, String>,
) -> ApiError {
    let cursor = match cursor {
        Ok(Some(cursor)) => {
            let request = ListOrdersRequest { page_size: 1, page_token: cursor.into() };
            paging::cursor_fault(ask(gateway, caller, request).await)
        }
        Ok(None) => None,
        Err(fault) => Some(fault),
    };
    paging::refusal([limit], cursor)
}
