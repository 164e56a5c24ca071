//! What every list has: `limit` and `cursor`, and the way to the next page (docs/contract.md, 7.1).

mod links;
mod parameters;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use petstore_proto::v1::ErrorReason;

pub(in crate::routes) use links::ListUrl;
pub(in crate::routes) use parameters::{Parameter, cursor, given, limit};

use crate::{error::ApiError, routes::json};

const X_NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// A page, with what leads to the others. An empty `next_page_token` means that it is the last.
pub(in crate::routes) fn answer(
    list: &ListUrl,
    is_first: bool,
    body: Vec<u8>,
    next_page_token: &str,
) -> Response {
    let mut response = json(StatusCode::OK, body);
    let next_cursor = Some(next_page_token).filter(|token| !token.is_empty());
    if let Some(Ok(links)) = list.links(next_cursor, is_first).map(HeaderValue::try_from) {
        response.headers_mut().insert(header::LINK, links);
    }
    if let Some(Ok(cursor)) = next_cursor.map(HeaderValue::from_str) {
        response.headers_mut().insert(X_NEXT_CURSOR, cursor);
    }
    response
}

/// What the core says of a cursor that was put before it beside other faults.
pub(in crate::routes) fn cursor_fault<T>(asked: Result<T, ApiError>) -> Option<String> {
    match asked {
        Err(ApiError::Core { reason: ErrorReason::InvalidCursor, message, .. }) => Some(message),
        // An outage is no fault of the query, whose other faults are certain.
        Ok(_) | Err(_) => None,
    }
}

/// One error that names every fault of a query: `INVALID_CURSOR` if the cursor is the only one.
pub(in crate::routes) fn refusal(
    others: impl IntoIterator<Item = Option<String>>,
    cursor: Option<String>,
) -> ApiError {
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
