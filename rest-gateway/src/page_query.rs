//! Query of a list: `limit`, `cursor` and a filter, and the links to other pages (docs/contract.md, 7.1,
//! 7.2).

use std::{
    borrow::Cow,
    fmt::{Display, Write},
    marker::PhantomData,
};

use axum::{extract::FromRequestParts, response::Response};
use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use petstore_proto::PageToken;

use crate::{
    error::{ApiError, InputFault, Place},
    extract::{Filter, Resource, unknown_input},
    json::{json_response, number, word, words_rule},
    unknown_input::{RESERVED, UnknownInput},
};

const X_NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// Maximum number of rows on a page.
const MAX_LIMIT: u8 = 100;

/// Page that a client requests, as the core receives it.
pub(crate) struct PageQuery<R> {
    /// Number of rows. 0 means the core's default.
    pub(crate) page_size: i32,
    /// Cursor; empty for the first page.
    pub(crate) page_token: String,
    /// Number of the filter's value; 0 without one.
    pub(crate) filter: i32,
    /// URL of the list, with the limit that the client gave.
    url: String,
    list: PhantomData<R>,
}

impl<S: Sync, R: Resource> FromRequestParts<S> for PageQuery<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut unknown = unknown_input(parts)?.lock();
        let query = Query::parse(parts.uri.query().unwrap_or_default(), R::FILTER, &mut unknown);
        unknown.refuse()?;
        let Query { limit: Ok(limit), filter: Ok(filter), cursor: Ok(cursor) } = query else {
            return Err(query.refusal(R::LIST, R::FILTER));
        };
        Ok(Self {
            page_size: limit.map_or(0, i32::from),
            page_token: cursor.map(String::from).unwrap_or_default(),
            filter: filter.map_or(0, i32::from),
            url: with(parts.uri.path().to_owned(), "limit", limit),
            list: PhantomData,
        })
    }
}

impl<R: Resource> PageQuery<R> {
    /// Returns the response with a page of the core and links to others. `filter` is that of its cursor. An
    /// empty `next_page_token` means that it is the last page.
    pub(crate) fn page(self, body: Vec<u8>, next_page_token: &str, filter: i32) -> Response {
        let mut first = self.url;
        if let Some(Filter { name, words }) = R::FILTER {
            // The link to the first page must keep the filter.
            first = with(first, name, word(words, if self.filter == 0 { filter } else { self.filter }));
        }
        let mut response = json_response(StatusCode::OK, body);
        let next_cursor = Some(next_page_token).filter(|token| !token.is_empty());
        let links = links(&first, next_cursor, self.page_token.is_empty());
        for (name, value) in [(header::LINK, &*links), (X_NEXT_CURSOR, next_page_token)] {
            if let (false, Ok(value)) = (value.is_empty(), HeaderValue::from_str(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// Returns the URL with one more parameter, if it has a value.
fn with(mut url: String, name: &str, value: Option<impl Display>) -> String {
    if let Some(value) = value {
        let separator = if url.contains('?') { '&' } else { '?' };
        let _ = write!(url, "{separator}{name}={value}"); // cannot fail: it is a String
    }
    url
}

/// Returns the `Link` field of a page. It names the next page, if there is one, and on any later page the
/// first. Empty if there is nothing to link to.
fn links(first: &str, next_cursor: Option<&str>, is_first: bool) -> String {
    let next = next_cursor.map(|cursor| {
        let cursor = utf8_percent_encode(cursor, RESERVED);
        format!("<{}>; rel=\"next\"", with(first.to_owned(), "cursor", Some(cursor)))
    });
    let first = (!is_first).then(|| format!("<{first}>; rel=\"first\""));
    next.into_iter().chain(first).collect::<Vec<_>>().join(", ")
}

/// Parameters, each parsed separately: its value, if it was given, or the rule that it breaks. Others are
/// unknown input.
#[derive(Debug, PartialEq)]
struct Query<'a> {
    limit: Result<Option<u8>, String>,
    /// Number of the filter's value in the contract.
    filter: Result<Option<u8>, String>,
    cursor: Result<Option<Cow<'a, str>>, String>,
}

/// Value of a parameter after percent-decoding (RFC 3986 §2.1), or an error if it occurs twice or is not
/// UTF-8. `None` if it is absent.
type Parameter<'a> = Option<Result<Cow<'a, str>, ()>>;

impl<'a> Query<'a> {
    fn parse(query: &'a str, filter: Option<Filter>, unknown: &mut UnknownInput) -> Self {
        let (name, words) = filter.map_or((None, &[][..]), |Filter { name, words }| (Some(name), words));
        let [limit, filter, cursor] = given(query, [Some("limit"), name, Some("cursor")], unknown);
        let limit_rule = || format!("must be a whole number from 1 to {MAX_LIMIT}");
        let cursor_rule = || "must be given once, as returned with the previous page".to_owned();
        Self {
            limit: judged(limit, |digits| whole_number(&digits), limit_rule),
            filter: judged(filter, |word| number(words, &word), || words_rule(words)),
            cursor: judged(cursor, |cursor| Some(cursor).filter(|it| !it.is_empty()), cursor_rule),
        }
    }

    /// Returns one error that names every fault: `INVALID_CURSOR` if the cursor is the only one.
    ///
    /// Only a cursor beside other faults is judged here. Any other is judged by the core, which may write and
    /// read newer ones than this gateway.
    fn refusal(self, list: u8, filter: Option<Filter>) -> ApiError {
        let list = list + self.filter.as_ref().ok().copied().flatten().unwrap_or_default();
        let is_of_list = |cursor: &Cow<'_, str>| PageToken::parse(cursor, list).map(drop);
        let cursor = self.cursor.and_then(|cursor| Ok(cursor.as_ref().map(is_of_list).transpose()?));
        let name = filter.map_or("", |filter| filter.name);
        let faults = [("limit", self.limit.err()), (name, self.filter.err()), ("cursor", cursor.err())];
        let fault = |(name, rule): (&str, Option<String>)| Some(InputFault::new(Place::Query, name, rule?));
        let faults: Vec<_> = faults.into_iter().filter_map(fault).collect();
        match &faults[..] {
            [only] if only.name == "cursor" => ApiError::InvalidCursor(faults.into()),
            _ => ApiError::InvalidParameter(faults.into()),
        }
    }
}

/// Returns the parameters with these names, in their order.
fn given<'a, const N: usize>(
    query: &'a str,
    names: [Option<&str>; N],
    unknown: &mut UnknownInput,
) -> [Parameter<'a>; N] {
    let mut given = [const { None }; N];
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let name = percent_decode_str(name).decode_utf8_lossy();
        if let Some((_, slot)) = names.iter().zip(&mut given).find(|(known, _)| **known == Some(&*name)) {
            let value = percent_decode_str(value).decode_utf8().map_err(drop);
            *slot = Some(if slot.is_none() { value } else { Err(()) });
        } else if !parameter.is_empty() {
            unknown.add(Place::Query, &name);
        }
    }
    given
}

/// Returns the value of a parameter, if it was given, or the rule that it breaks.
fn judged<'a, T>(
    parameter: Parameter<'a>,
    parse: impl FnOnce(Cow<'a, str>) -> Option<T>,
    rule: impl FnOnce() -> String,
) -> Result<Option<T>, String> {
    parameter.map(|value| value.ok().and_then(parse).ok_or_else(rule)).transpose()
}

/// Parses `[1-9][0-9]*`, up to the maximum.
fn whole_number(digits: &str) -> Option<u8> {
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|limit| canonical && *limit <= MAX_LIMIT)
}

/// Limit, number of the status and cursor of a list, each with its value or the rule that it breaks.
#[cfg(feature = "fuzzing")]
pub type FuzzedQuery =
    (Result<Option<u8>, String>, Result<Option<u8>, String>, Result<Option<String>, String>);

/// Parses the query of the list of pets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_query(query: &str) -> FuzzedQuery {
    use petstore_proto::v1::Pet;
    let Query { limit, filter, cursor } = Query::parse(query, Pet::FILTER, &mut UnknownInput::default());
    (limit, filter, cursor.map(|cursor| cursor.map(String::from)))
}

#[cfg(test)]
mod tests {
    use petstore_proto::v1::{Order, Pet};
    use proptest::prelude::*;

    use super::*;

    fn parse(query: &str) -> Query<'_> {
        Query::parse(query, Pet::FILTER, &mut UnknownInput::default())
    }

    #[test]
    fn parameters_are_optional_and_read_in_any_order_and_percent_encoding() {
        for query in ["", "&", "x=1&y", "Limit=0&STATUS=&=5"] {
            assert_eq!(parse(query), Query { limit: Ok(None), filter: Ok(None), cursor: Ok(None) });
        }
        let read = Query { limit: Ok(Some(5)), filter: Ok(Some(3)), cursor: Ok(Some("a+b=+c".into())) };
        assert_eq!(parse("cursor=a%2Bb%3D+c&x=%ff&stat%75s=s%6Fld&limit=%35"), read);
        let orders = Query::parse("status=x&=y&limit=5", Order::FILTER, &mut UnknownInput::default());
        assert_eq!(orders, parse("limit=5"), "they have no filter");
    }

    #[test]
    fn a_status_is_one_of_three_words_exactly_and_a_cursor_is_given_once() {
        for word in ["", "Sold", "sold,pending", "sold%20", "unknown", "%ff", "sold&status=sold"] {
            let refused = parse(&format!("status={word}")).filter.unwrap_err();
            assert_eq!(refused, "must be one of available, pending, sold", "{word}");
        }
        for query in ["cursor=", "cursor", "cursor=a&cursor=a", "cursor=%ff"] {
            assert!(parse(query).cursor.is_err(), "{query}");
        }
    }

    #[test]
    fn a_faulty_cursor_has_a_code_of_its_own_only_when_it_is_the_only_fault() {
        fn refused<R: Resource>(query: &str) -> ApiError {
            Query::parse(query, R::FILTER, &mut UnknownInput::default()).refusal(R::LIST, R::FILTER)
        }
        let sold = PageToken { list: 3, last_id: 7 };
        let empty = "cursor must be given once, as returned with the previous page";
        let alone = refused::<Pet>("cursor=");
        assert!(matches!(alone, ApiError::InvalidCursor(_)) && alone.to_string() == empty, "{alone}");
        let limit = "limit must be a whole number from 1 to 100";
        for (query, others) in [
            ("limit=0".to_owned(), ""),
            (format!("limit=0&cursor={sold}"), ""),
            ("limit=0&cursor=".to_owned(), &*format!("; {empty}")),
            (
                "limit=0&cursor=x".to_owned(),
                "; cursor must be the one returned with the previous page, unchanged",
            ),
            (
                format!("limit=0&status=pending&cursor={sold}"),
                "; cursor belongs to a list with another filter",
            ),
            (format!("limit=0&status=x&cursor={sold}"), "; status must be one of available, pending, sold"),
        ] {
            let refused = refused::<Pet>(&query);
            assert!(matches!(refused, ApiError::InvalidParameter(_)), "{query}");
            assert_eq!(refused.to_string(), format!("{limit}{others}"), "{query}");
        }
        let of_another = refused::<Order>(&format!("limit=0&cursor={sold}"));
        assert_eq!(of_another.to_string(), format!("{limit}; cursor belongs to another list"));
    }

    #[test]
    fn later_pages_link_to_the_first_and_all_but_the_last_to_the_next() {
        for (next, is_first, expected) in [
            (None, true, ""),
            (Some("abc"), true, r#"</v1/pets?cursor=abc>; rel="next""#),
            (None, false, r#"</v1/pets>; rel="first""#),
        ] {
            assert_eq!(links("/v1/pets", next, is_first), expected);
        }
    }

    #[test]
    fn a_cursor_cannot_break_out_of_the_link_beside_that_to_the_first_page() {
        let links = links("/v1/pets?limit=5", Some("a>;\r\n\"&=é"), false);
        let next = r#"</v1/pets?limit=5&cursor=a%3E%3B%0D%0A%22%26%3D%C3%A9>; rel="next""#;
        assert_eq!(links, format!(r#"{next}, </v1/pets?limit=5>; rel="first""#));
    }

    proptest! {
        #[test]
        fn no_query_makes_parsing_panic(query in "([a-z&=%+]|limit=|status=|cursor=|\\PC){0,30}") {
            let _ = parse(&query);
        }

        #[test]
        fn only_1_to_100_are_limits(number: i64) {
            let query = format!("limit={number}");
            prop_assert_eq!(parse(&query).limit.is_ok(), (1..=100).contains(&number));
        }
    }
}
