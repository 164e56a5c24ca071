//! `GET /v1/pets`: a page of animals (specification §4.1).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use petstore_proto::v1::{ErrorReason, ListPetsRequest, ListPetsResponse, PetStatus};

use super::{page_link::List, query::Query};
use crate::{
    core_client, error::ApiError, gateway::GatewayState, json::pets_body, middleware::Caller, routes::json,
};

const X_NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

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
    Ok(answer(List { limit, status }, is_first, &page))
}

async fn ask(
    gateway: &GatewayState,
    caller: &Caller,
    request: ListPetsRequest,
) -> Result<ListPetsResponse, ApiError> {
    let request = core_client::request(request, caller);
    core_client::answer(gateway.pets.clone().list_pets(request), caller).await
}

fn answer(list: List, is_first: bool, page: &ListPetsResponse) -> Response {
    let mut response = json(StatusCode::OK, pets_body(&page.pets));
    let next_cursor = Some(page.next_page_token.as_str()).filter(|token| !token.is_empty());
    if let Some(Ok(links)) = list.links(next_cursor, is_first).map(HeaderValue::try_from) {
        response.headers_mut().insert(header::LINK, links);
    }
    if let Some(Ok(cursor)) = next_cursor.map(HeaderValue::from_str) {
        response.headers_mut().insert(X_NEXT_CURSOR, cursor);
    }
    response
}

/// One error that names all faults of the query. Only the core can tell a good cursor from a bad one, so a cursor
/// beside other faults is put before it too.
async fn refuse(gateway: &GatewayState, caller: &Caller, query: Query<'_>) -> ApiError {
    let Query { limit, status, cursor } = query;
    let cursor = match cursor {
        Ok(Some(cursor)) => {
            let status = status.as_ref().copied().unwrap_or_default().unwrap_or(PetStatus::Unspecified);
            let request = ListPetsRequest { page_size: 1, page_token: cursor.into(), status: status.into() };
            match ask(gateway, caller, request).await {
                Err(ApiError::Core { reason: ErrorReason::InvalidCursor, message, .. }) => Some(message),
                // An outage is no fault of the query, whose other faults are certain.
                Ok(_) | Err(_) => None,
            }
        }
        Ok(None) => None,
        Err(fault) => Some(fault),
    };
    match (limit.err(), status.err(), cursor) {
        (None, None, Some(cursor)) => ApiError::InvalidCursor(cursor),
        (limit, status, cursor) => {
            let faults: Vec<String> = [limit, status, cursor].into_iter().flatten().collect();
            ApiError::InvalidParameter(faults.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: List = List { limit: None, status: None };

    #[test]
    fn a_page_with_a_successor_names_its_cursor() {
        let page = ListPetsResponse { pets: Vec::new(), next_page_token: "abc".to_owned() };
        let response = answer(ALL, true, &page);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[X_NEXT_CURSOR], "abc");
        assert_eq!(response.headers()[header::LINK], r#"</v1/pets?cursor=abc>; rel="next""#);
    }

    #[test]
    fn the_last_page_names_none() {
        let response = answer(ALL, true, &ListPetsResponse::default());
        assert!(
            !response.headers().contains_key(X_NEXT_CURSOR) && !response.headers().contains_key(header::LINK)
        );
    }
}
