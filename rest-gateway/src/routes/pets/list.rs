//! `GET /v1/pets`: a page of animals (docs/contract.md, 7.2).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use petstore_proto::v1::{ListPetsRequest, ListPetsResponse, PetStatus};

use super::query::Query;
use crate::{
    caller::Caller,
    core_client,
    error::ApiError,
    gateway::GatewayState,
    json::{pets_body, word_of},
    routes::paging::{self, ListUrl},
};

pub(crate) async fn list(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::parse(uri.query().unwrap_or_default());
    let Query { limit: Ok(limit), status: Ok(status), cursor: Ok(cursor) } = query else {
        return Err(refuse(&gateway, &caller, query).await);
    };
    let is_first = cursor.is_none();
    let request = ListPetsRequest {
        page_size: limit.map_or(0, i32::from), // 0: the core's default
        page_token: cursor.map(String::from).unwrap_or_default(),
        status: status.unwrap_or_default().into(),
    };
    let page = ask(&gateway, &caller, request).await?;
    // A cursor brings its status along, and the way back to the first page must not lose it.
    let status = status.or(PetStatus::try_from(page.status).ok()).and_then(word_of);
    let list = ListUrl::new("/v1/pets").with("limit", limit).with("status", status);
    Ok(paging::answer(&list, is_first, pets_body(&page.pets), &page.next_page_token))
}

async fn ask(
    gateway: &GatewayState,
    caller: &Caller,
    request: ListPetsRequest,
) -> Result<ListPetsResponse, ApiError> {
    core_client::ask(request, caller, &gateway.retries, |request| {
        let mut core = gateway.pets.clone();
        async move { core.list_pets(request).await }
    })
    .await
}

/// Only the core can tell a good cursor from a bad one, so a cursor beside other faults is put before it too.
async fn refuse(gateway: &GatewayState, caller: &Caller, query: Query<'_>) -> ApiError {
    let Query { limit, status, cursor } = query;
    let cursor = match cursor {
        Ok(Some(cursor)) => {
            let status = status.as_ref().copied().unwrap_or_default().unwrap_or(PetStatus::Unspecified);
            let request = ListPetsRequest { page_size: 1, page_token: cursor.into(), status: status.into() };
            paging::cursor_fault(ask(gateway, caller, request).await)
        }
        Ok(None) => None,
        Err(fault) => Some(fault),
    };
    paging::refusal([limit.err(), status.err()], cursor)
}
