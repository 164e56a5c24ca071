//! Parts that every list has: `limit` and `cursor`, and the links to other pages (docs/contract.md, 7.1).

mod query;

use std::fmt::{Display, Write};

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use percent_encoding::utf8_percent_encode;
use petstore_proto::PageToken;

use crate::{
    error::ApiError,
    json::{json_response, word},
    problem::{Faults, Place},
    unknown_input::{RESERVED, UnknownInput},
};
pub(super) use query::{Filter, Query};

const X_NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// A list, as its queries and cursors name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// Number in cursors, to which that of the filter is added.
    pub(super) number: u8,
    pub(super) filter: Option<Filter>,
}

/// Page that a client requests, as the core receives it.
#[derive(Debug)]
pub(super) struct PageRequest {
    /// Number of rows. 0 means the core's default.
    pub(super) page_size: i32,
    /// Cursor; empty for the first page.
    pub(super) page_token: String,
    /// Number of the filter's value; 0 without one.
    pub(super) filter: i32,
}

/// Page as the core returns it.
#[derive(Debug)]
pub(super) struct AnsweredPage {
    pub(super) body: Vec<u8>,
    /// Cursor of the next page; empty on the last page.
    pub(super) next_page_token: String,
    /// Filter, which is part of a cursor.
    pub(super) filter: i32,
}

impl List {
    /// Answers with a page of the list at `uri`, which `fetch` gets from the core.
    pub(super) async fn answer<F>(
        self,
        uri: &Uri,
        unknown: &mut UnknownInput,
        fetch: impl FnOnce(PageRequest) -> F,
    ) -> Result<Response, ApiError>
    where
        F: Future<Output = Result<AnsweredPage, ApiError>>,
    {
        let query = Query::parse(uri.query().unwrap_or_default(), self.filter, unknown);
        unknown.refuse()?;
        let Query { limit: Ok(limit), filter: Ok(filter), cursor: Ok(cursor) } = query else {
            return Err(self.refusal(query));
        };
        let is_first = cursor.is_none();
        let page = fetch(PageRequest {
            page_size: limit.map_or(0, i32::from),
            page_token: cursor.map(String::from).unwrap_or_default(),
            filter: filter.map_or(0, i32::from),
        })
        .await?;
        let mut first = with(uri.path().to_owned(), "limit", limit);
        if let Some(Filter { name, words }) = self.filter {
            // The link to the first page must keep the filter.
            first = with(first, name, word(words, filter.map_or(page.filter, i32::from)));
        }
        Ok(answer(&first, is_first, page.body, &page.next_page_token))
    }

    /// Returns one error that names every fault of a query: `INVALID_CURSOR` if the cursor is the only one.
    ///
    /// Only a cursor beside other faults is judged here. Any other is judged by the core, which may write and
    /// read newer ones than this gateway.
    fn refusal(self, query: Query<'_>) -> ApiError {
        let list = self.number + query.filter.as_ref().ok().copied().flatten().unwrap_or_default();
        let cursor = query.cursor.and_then(|cursor| match cursor {
            Some(cursor) => {
                PageToken::parse(&cursor, list).map(drop).map_err(|rule| format!("cursor {rule}"))
            }
            None => Ok(()),
        });
        let others: Vec<String> = [query.limit.err(), query.filter.err()].into_iter().flatten().collect();
        let is_cursor_alone = others.is_empty() && cursor.is_err();
        let sentences: Vec<String> = others.into_iter().chain(cursor.err()).collect();
        let faults = Faults::new(Place::Query, &sentences);
        if is_cursor_alone { ApiError::InvalidCursor(faults) } else { ApiError::InvalidParameter(faults) }
    }
}

/// Returns a page with links to the others. `list` is the URL of the first one, with the parameters that the
/// client gave. An empty `next_page_token` means that it is the last.
fn answer(list: &str, is_first: bool, body: Vec<u8>, next_page_token: &str) -> Response {
    let mut response = json_response(StatusCode::OK, body);
    let next_cursor = Some(next_page_token).filter(|token| !token.is_empty());
    if let Some(Ok(links)) = links(list, next_cursor, is_first).map(HeaderValue::try_from) {
        response.headers_mut().insert(header::LINK, links);
    }
    if let Some(Ok(cursor)) = next_cursor.map(HeaderValue::from_str) {
        response.headers_mut().insert(X_NEXT_CURSOR, cursor);
    }
    response
}

/// Returns the URL with one more parameter, if it has a value.
fn with(mut url: String, name: &str, value: Option<impl Display>) -> String {
    if let Some(value) = value {
        let separator = if url.contains('?') { '&' } else { '?' };
        // Writing to a string does not fail.
        let _ = write!(url, "{separator}{name}={value}");
    }
    url
}

/// Returns the `Link` field of a page. It names the next page, if there is one, and on any later page the
/// first. `None` if there is nothing to link to.
fn links(list: &str, next_cursor: Option<&str>, is_first: bool) -> Option<String> {
    let next = next_cursor.map(|cursor| {
        let cursor = utf8_percent_encode(cursor, RESERVED);
        format!("<{}>; rel=\"next\"", with(list.to_owned(), "cursor", Some(cursor)))
    });
    let first = (!is_first).then(|| format!("<{list}>; rel=\"first\""));
    match (next, first) {
        (Some(next), Some(first)) => Some(format!("{next}, {first}")),
        (next, first) => next.or(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::pet::STATUSES;

    const ALL: &str = "/v1/pets";

    #[test]
    fn a_page_with_a_successor_names_its_cursor() {
        let response = answer(ALL, true, b"[]".to_vec(), "abc");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[X_NEXT_CURSOR], "abc");
        assert_eq!(response.headers()[header::LINK], r#"</v1/pets?cursor=abc>; rel="next""#);
    }

    #[test]
    fn the_last_page_names_none() {
        let response = answer(ALL, true, b"[]".to_vec(), "");
        assert!(
            !response.headers().contains_key(X_NEXT_CURSOR) && !response.headers().contains_key(header::LINK)
        );
    }

    #[test]
    fn a_faulty_cursor_has_a_code_of_its_own_only_when_it_is_the_only_fault() {
        let pets = List { number: 0, filter: Some(Filter { name: "status", words: &STATUSES }) };
        let sold = PageToken { list: 3, last_id: 7 };
        let empty = "cursor must be given once, as returned with the previous page";
        let refused_by = |list: List, query: &str| {
            list.refusal(Query::parse(query, list.filter, &mut UnknownInput::default()))
        };
        let refused = |query: &str| refused_by(pets, query);
        let faults = |sentences: &str| {
            Faults::new(Place::Query, &sentences.split("; ").map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(refused("cursor="), ApiError::InvalidCursor(faults(empty)));
        let limit = "limit must be a whole number from 1 to 100";
        for (query, sentences) in [
            ("limit=0".to_owned(), limit.to_owned()),
            (format!("limit=0&cursor={sold}"), limit.to_owned()),
            ("limit=0&cursor=".to_owned(), format!("{limit}; {empty}")),
            (
                "limit=0&cursor=x".to_owned(),
                format!("{limit}; cursor must be the one returned with the previous page, unchanged"),
            ),
            (
                format!("limit=0&status=pending&cursor={sold}"),
                format!("{limit}; cursor belongs to a list with another filter"),
            ),
            (
                format!("limit=0&status=x&cursor={sold}"),
                format!("{limit}; status must be one of available, pending, sold"),
            ),
        ] {
            assert_eq!(refused(&query), ApiError::InvalidParameter(faults(&sentences)), "{query}");
        }
        let of_another_list =
            refused_by(List { number: 16, filter: None }, &format!("limit=0&cursor={sold}"));
        let sentences = format!("{limit}; cursor belongs to another list");
        assert_eq!(of_another_list, ApiError::InvalidParameter(faults(&sentences)));
    }

    fn bare() -> String {
        with(ALL.to_owned(), "limit", None::<u8>)
    }

    fn narrow() -> String {
        with(with(ALL.to_owned(), "limit", Some(5)), "status", Some("sold"))
    }

    #[test]
    fn a_single_page_has_no_links() {
        assert_eq!(links(&narrow(), None, true), None);
    }

    #[test]
    fn the_next_link_keeps_the_clients_parameters() {
        assert_eq!(links(&bare(), Some("abc"), true).unwrap(), r#"</v1/pets?cursor=abc>; rel="next""#);
        let expected = r#"</v1/pets?limit=5&status=sold&cursor=abc>; rel="next""#;
        assert_eq!(links(&narrow(), Some("abc"), true).unwrap(), expected);
    }

    #[test]
    fn later_pages_also_link_to_the_first() {
        let next = r#"</v1/pets?limit=5&status=sold&cursor=abc>; rel="next""#;
        let first = r#"</v1/pets?limit=5&status=sold>; rel="first""#;
        assert_eq!(links(&narrow(), Some("abc"), false).unwrap(), format!("{next}, {first}"));
        assert_eq!(links(&bare(), None, false).unwrap(), r#"</v1/pets>; rel="first""#);
    }

    #[test]
    fn a_cursor_cannot_break_out_of_the_link() {
        let links = links(&bare(), Some("a>;\r\n\"&=é"), true).unwrap();
        assert_eq!(links, r#"</v1/pets?cursor=a%3E%3B%0D%0A%22%26%3D%C3%A9>; rel="next""#);
    }
}
