//! Links between the pages of a list (RFC 8288).

use std::fmt::{Display, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters but the unreserved ones of RFC 3986 §2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// First page of the list that a client requested, with its parameters. Parameters that it omitted stay
/// omitted.
#[derive(Clone, Debug)]
pub(super) struct ListUrl(String);

impl ListUrl {
    /// Returns the list at `path`, without parameters.
    pub(super) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// Returns the list with one more parameter, if there is a value.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.add(name, value);
        }
        self
    }

    /// Returns the `Link` field of a page. It names the next page, if there is one, and on any later page the
    /// first. `None` if there is nothing to link to.
    pub(super) fn links(&self, next_cursor: Option<&str>, is_first: bool) -> Option<String> {
        let next = next_cursor.map(|cursor| {
            let mut next = self.clone();
            next.add("cursor", utf8_percent_encode(cursor, RESERVED));
            format!("<{}>; rel=\"next\"", next.0)
        });
        let first = (!is_first).then(|| format!("<{}>; rel=\"first\"", self.0));
        match (next, first) {
            (Some(next), Some(first)) => Some(format!("{next}, {first}")),
            (next, first) => next.or(first),
        }
    }

    fn add(&mut self, name: &str, value: impl Display) {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{separator}{name}={value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> ListUrl {
        ListUrl::new("/v1/pets").with("limit", None::<u8>)
    }

    fn narrow() -> ListUrl {
        ListUrl::new("/v1/pets").with("limit", Some(5)).with("status", Some("sold"))
    }

    #[test]
    fn a_single_page_has_no_links() {
        assert_eq!(narrow().links(None, true), None);
    }

    #[test]
    fn the_next_link_keeps_the_clients_parameters() {
        assert_eq!(bare().links(Some("abc"), true).unwrap(), r#"</v1/pets?cursor=abc>; rel="next""#);
        let expected = r#"</v1/pets?limit=5&status=sold&cursor=abc>; rel="next""#;
        assert_eq!(narrow().links(Some("abc"), true).unwrap(), expected);
    }

    #[test]
    fn later_pages_also_link_to_the_first() {
        let next = r#"</v1/pets?limit=5&status=sold&cursor=abc>; rel="next""#;
        let first = r#"</v1/pets?limit=5&status=sold>; rel="first""#;
        assert_eq!(narrow().links(Some("abc"), false).unwrap(), format!("{next}, {first}"));
        assert_eq!(bare().links(None, false).unwrap(), r#"</v1/pets>; rel="first""#);
    }

    #[test]
    fn a_cursor_cannot_break_out_of_the_link() {
        let links = bare().links(Some("a>;\r\n\"&=é"), true).unwrap();
        assert_eq!(links, r#"</v1/pets?cursor=a%3E%3B%0D%0A%22%26%3D%C3%A9>; rel="next""#);
    }
}
