//! Parts that every list has: `limit` and `cursor`, and the links to other pages (docs/contract.md, 7.1).

mod links;
mod query;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use petstore_proto::v1::PetStatus;

use links::ListUrl;
pub(super) use query::Query;

use super::json_response;
use crate::{error::ApiError, json::pet::pet_status_word};

const X_NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// Page that a client requests, as the core receives it.
#[derive(Debug)]
pub(super) struct PageRequest {
    /// Number of rows. 0 means the core's default. A negative number means none, which the core refuses.
    pub(super) page_size: i32,
    /// Cursor; empty for the first page.
    pub(super) page_token: String,
    pub(super) status: PetStatus,
}

/// Page as the core returns it.
#[derive(Debug)]
pub(super) struct AnsweredPage {
    pub(super) body: Vec<u8>,
    /// Cursor of the next page; empty on the last page.
    pub(super) next_page_token: String,
    /// Filter, which is part of a cursor.
    pub(super) status: Option<PetStatus>,
}

/// Answers with a page of the list at `path`, which `fetch` gets from the core.
pub(super) async fn list<F>(
    path: &str,
    query: Query<'_>,
    fetch: impl Fn(PageRequest) -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = Result<AnsweredPage, ApiError>>,
{
    let Query { limit: Ok(limit), status: Ok(status), cursor: Ok(cursor) } = query else {
        return Err(refuse(query, fetch).await);
    };
    let is_first = cursor.is_none();
    let page = fetch(PageRequest {
        page_size: limit.map_or(0, i32::from),
        page_token: cursor.map(String::from).unwrap_or_default(),
        status: status.unwrap_or_default(),
    })
    .await?;
    // The link to the first page must keep the filter.
    let status = status.or(page.status).and_then(pet_status_word);
    let list = ListUrl::new(path).with("limit", limit).with("status", status);
    Ok(answer(&list, is_first, page.body, &page.next_page_token))
}

/// Size of a page that the core refuses before it reads a row.
const NO_PAGE: i32 = -1;

/// Returns the error of a query. Only the core can distinguish a good cursor from a bad one. So a cursor
/// beside other faults is sent to the core too, in a call that the core refuses in any case. Its refusal
/// shows if the cursor is a fault.
async fn refuse<F>(query: Query<'_>, fetch: impl Fn(PageRequest) -> F) -> ApiError
where
    F: Future<Output = Result<AnsweredPage, ApiError>>,
{
    let Query { limit, status, cursor } = query;
    let cursor = match cursor {
        Ok(Some(cursor)) => {
            let status = status.as_ref().copied().unwrap_or_default().unwrap_or_default();
            let request = PageRequest { page_size: NO_PAGE, page_token: cursor.into(), status };
            match fetch(request).await {
                Err(ApiError::CoreParameter { cursor, .. }) => cursor,
                // An outage is not a fault of the query, and its other faults are certain.
                Ok(_) | Err(_) => None,
            }
        }
        Ok(None) => None,
        Err(fault) => Some(fault),
    };
    refusal([limit.err(), status.err()], cursor)
}

/// Returns a page with links to the others. An empty `next_page_token` means that it is the last.
fn answer(list: &ListUrl, is_first: bool, body: Vec<u8>, next_page_token: &str) -> Response {
    let mut response = json_response(StatusCode::OK, body);
    let next_cursor = Some(next_page_token).filter(|token| !token.is_empty());
    if let Some(Ok(links)) = list.links(next_cursor, is_first).map(HeaderValue::try_from) {
        response.headers_mut().insert(header::LINK, links);
    }
    if let Some(Ok(cursor)) = next_cursor.map(HeaderValue::from_str) {
        response.headers_mut().insert(X_NEXT_CURSOR, cursor);
    }
    response
}

/// Returns one error that names every fault of a query: `INVALID_CURSOR` if the cursor is the only one.
fn refusal(others: impl IntoIterator<Item = Option<String>>, cursor: Option<String>) -> ApiError {
    let others: Vec<String> = others.into_iter().flatten().collect();
    match cursor {
        Some(cursor) if others.is_empty() => ApiError::InvalidCursor(cursor),
        cursor => ApiError::InvalidParameter(others.into_iter().chain(cursor).collect::<Vec<_>>().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> ListUrl {
        ListUrl::new("/v1/pets")
    }

    #[test]
    fn a_page_with_a_successor_names_its_cursor() {
        let response = answer(&all(), true, b"[]".to_vec(), "abc");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[X_NEXT_CURSOR], "abc");
        assert_eq!(response.headers()[header::LINK], r#"</v1/pets?cursor=abc>; rel="next""#);
    }

    #[test]
    fn the_last_page_names_none() {
        let response = answer(&all(), true, b"[]".to_vec(), "");
        assert!(
            !response.headers().contains_key(X_NEXT_CURSOR) && !response.headers().contains_key(header::LINK)
        );
    }

    #[test]
    fn a_faulty_cursor_has_a_code_of_its_own_only_when_it_is_the_only_fault() {
        let fault = |text: &str| Some(text.to_owned());
        assert_eq!(refusal([None, None], fault("c")), ApiError::InvalidCursor("c".to_owned()));
        assert_eq!(refusal([fault("a"), None], None), ApiError::InvalidParameter("a".to_owned()));
        let all = refusal([fault("a"), fault("b")], fault("c"));
        assert_eq!(all, ApiError::InvalidParameter("a; b; c".to_owned()));
    }
}
