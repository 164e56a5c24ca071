//! `GET /v1/pets`: a page of pets (docs/contract.md, 7.2).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use petstore_proto::v1::{ListPetsRequest, PetStatus};

use crate::{
    caller::Caller,
    error::ApiError,
    gateway::GatewayState,
    json::pets_body,
    routes::paging::{self, Page, PageRequest, Query},
};

pub(crate) async fn list(
    State(gateway): State<Arc<GatewayState>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (gateway, caller) = (&gateway, &caller);
    paging::list(
        "/v1/pets",
        Query::parse(uri.query().unwrap_or_default()),
        |PageRequest { page_size, page_token, status }| async move {
            let request = ListPetsRequest { page_size, page_token, status: status.into() };
            let page = gateway.core.call(request, caller).await?;
            let (body, status) = (pets_body(&page.pets), PetStatus::try_from(page.status).ok());
            Ok(Page { body, next_page_token: page.next_page_token, status })
        },
    )
    .await
}
