//! `GET /v1/pets`: a page of pets (docs/contract.md, 7.2).

use axum::response::Response;
use http::Uri;
use petstore_proto::v1::{ListPetsRequest, PetStatus};
use serde_json::json;

use crate::{
    caller::Caller,
    error::{ApiError, responses},
    gateway::GatewayState,
    json::pet::pets_body,
    operation::{
        Description, Success,
        description::{Link, PETS},
    },
    routes::paging::{self, AnsweredPage, PageRequest, Query},
};

/// What the OpenAPI document says of it.
pub(in crate::routes) const DESCRIPTION: Description = Description {
    tag: PETS,
    summary: "List animals",
    text: "A page of animals in ascending order of their identifier. While more exist, the response carries \
           X-Next-Cursor and Link rel=\"next\". An animal that was added before the walk over the pages \
           began is seen exactly once. Unknown parameters are ignored.",
    parameters: &["Limit", "Status", "Cursor"],
    request_body: None,
    success: Success {
        status: "200",
        description: "A page of animals; an empty array when there are none.",
        headers: paging::HEADERS,
        schema: "Pets",
        example: Some(|| {
            json!([
                { "id": 1, "name": "Rex", "categoryId": 7, "status": "available" },
                { "id": 2, "name": "Mia", "categoryId": 3 },
            ])
        }),
        link: Some(Link { name: "nextPage", target: || paging::next_page("listPets") }),
    },
    failures: &[&responses::INVALID_LIST],
};

pub(crate) async fn list(gateway: &GatewayState, caller: &Caller, uri: &Uri) -> Result<Response, ApiError> {
    paging::list(
        "/v1/pets",
        Query::parse(uri.query().unwrap_or_default()),
        |PageRequest { page_size, page_token, status }| async move {
            let request = ListPetsRequest { page_size, page_token, status: status.into() };
            let page = gateway.core.call(request, caller).await?;
            let (body, status) = (pets_body(&page.pets), PetStatus::try_from(page.status).ok());
            Ok(AnsweredPage { body, next_page_token: page.next_page_token, status })
        },
    )
    .await
}
