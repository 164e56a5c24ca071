//! Links between the pages of the list (RFC 8288).

use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use petstore_proto::v1::PetStatus;

use crate::json::word_of;

/// All but the unreserved characters of RFC 3986 §2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The list that a client asked for, in its words: a parameter that it left out stays out.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) limit: Option<u8>,
    pub(super) status: Option<PetStatus>,
}

impl List {
    /// The `Link` field of a page: the next one, if there is one, and from any later page the first. `None` if
    /// there is nothing to link to.
    pub(super) fn links(self, next_cursor: Option<&str>, is_first: bool) -> Option<String> {
        let next = next_cursor.map(|cursor| format!("<{}>; rel=\"next\"", self.url(Some(cursor))));
        let first = (!is_first).then(|| format!("<{}>; rel=\"first\"", self.url(None)));
        match (next, first) {
            (Some(next), Some(first)) => Some(format!("{next}, {first}")),
            (next, first) => next.or(first),
        }
    }

    fn url(self, cursor: Option<&str>) -> String {
        let mut url = String::from("/v1/pets");
        let mut separator = '?';
        let mut add = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string does not fail.
            let _ = write!(url, "{separator}{name}={value}");
            separator = '&';
        };
        if let Some(limit) = self.limit {
            add("limit", &limit);
        }
        if let Some(word) = self.status.and_then(word_of) {
            add("status", &word);
        }
        if let Some(cursor) = cursor {
            add("cursor", &utf8_percent_encode(cursor, RESERVED));
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: List = List { limit: None, status: None };
    const NARROW: List = List { limit: Some(5), status: Some(PetStatus::Sold) };

    #[test]
    fn an_only_page_links_to_nothing() {
        assert_eq!(NARROW.links(None, true), None);
    }

    #[test]
    fn the_next_page_is_asked_for_in_the_clients_words() {
        assert_eq!(BARE.links(Some("abc"), true).unwrap(), r#"</v1/pets?cursor=abc>; rel="next""#);
        let expected = r#"</v1/pets?limit=5&status=sold&cursor=abc>; rel="next""#;
        assert_eq!(NARROW.links(Some("abc"), true).unwrap(), expected);
    }

    #[test]
    fn later_pages_also_link_to_the_first() {
        let expected = r#"</v1/pets?limit=5&status=sold&cursor=abc>; rel="next", </v1/pets?limit=5&status=sold>; rel="first""#;
        assert_eq!(NARROW.links(Some("abc"), false).unwrap(), expected);
        assert_eq!(BARE.links(None, false).unwrap(), r#"</v1/pets>; rel="first""#);
    }

    #[test]
    fn a_cursor_cannot_break_out_of_the_link() {
        let links = BARE.links(Some("a>;\r\n\"&=é"), true).unwrap();
        assert_eq!(links, r#"</v1/pets?cursor=a%3E%3B%0D%0A%22%26%3D%C3%A9>; rel="next""#);
    }
}
