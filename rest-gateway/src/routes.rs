//! Handlers. A handler translates the request, calls the core and answers.

mod creation_key;
mod paging;
mod pets;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, Uri, header};
use petstore_api_key::List;
use petstore_proto::v1::ListOrdersRequest;

use crate::{
    error::ApiError,
    gateway::GatewayState,
    json::{order::orders_body, usage::usage_body},
    operation::Id,
    pipeline::Admitted,
    rate_limit::LimitStatus,
    request_id::Caller,
};
use paging::{AnsweredPage, PageRequest, Query};

/// Calls the handler of the operation. Returns the request if no handler serves it.
pub(crate) async fn handle(
    gateway: &GatewayState,
    admitted: Admitted,
) -> Result<Result<Response, ApiError>, Admitted> {
    let Admitted { operation, caller: Some(caller), limit_status, request } = admitted else {
        return Err(admitted);
    };
    Ok(match operation {
        Id::ListPets => pets::list(gateway, &caller, request.uri()).await,
        Id::CreatePet => Box::pin(pets::create(gateway, &caller, request)).await,
        Id::GetPet => pets::get(gateway, &caller, request.uri()).await,
        Id::ListOrders => Box::pin(list_orders(gateway, &caller, request.uri())).await,
        Id::GetUsage => Box::pin(get_usage(gateway, &caller, limit_status)).await,
        Id::OpenApi | Id::Docs | Id::Options | Id::Unmatched => {
            return Err(Admitted { operation, caller: Some(caller), limit_status, request });
        }
    })
}

/// Handles `GET /v1/store/orders`: a page of orders. They belong to the store, and every valid key sees all
/// of them.
async fn list_orders(gateway: &GatewayState, caller: &Caller, uri: &Uri) -> Result<Response, ApiError> {
    let query = Query { status: Ok(None), ..Query::parse(uri.query().unwrap_or_default()) };
    let fetch = |PageRequest { page_size, page_token, .. }| async move {
        let request = ListOrdersRequest { page_size, page_token };
        let page = gateway.core.call(request, caller).await?;
        let body = orders_body(&page.orders);
        Ok(AnsweredPage { body, next_page_token: page.next_page_token, status: None })
    };
    paging::list("/v1/store/orders", |_| List::Orders, query, fetch).await
}

/// Handles `GET /v1/usage` (beta). Admission has already inspected the account, since this uses no quota.
async fn get_usage(
    gateway: &GatewayState,
    caller: &Caller,
    limit_status: Option<LimitStatus>,
) -> Result<Response, ApiError> {
    let limit_status = limit_status.ok_or(ApiError::Internal)?;
    let days = gateway.usage.days(caller, gateway.core.retries()).await?;
    Ok(json_response(StatusCode::OK, usage_body(caller.plan, &limit_status, &days)))
}

/// Returns an answer with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().reserve(16); // most answers have that many fields
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
