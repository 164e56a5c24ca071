//! Parameters and fields that an operation does not have (docs/contract.md, 7.9): they are ignored and named
//! in the answer, or refused if the client prefers that (RFC 7240).

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use petstore_caller::api_key::redact;

use crate::{
    error::{ApiError, Faults, InputFault, Place},
    representation::MAX_ITEMS,
};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const X_IGNORED_INPUT: HeaderName = HeaderName::from_static("x-ignored-input");

/// All characters but the unreserved ones of RFC 3986 §2.3.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Maximum number of names in an answer.
const MAX_NAMES: usize = 8;

/// Maximum length of a name in an answer, in characters.
const MAX_NAME_LEN: usize = 64;

/// Unknown input of a request. It holds nothing, and does not allocate, while there is none.
#[derive(Debug, Default)]
pub(crate) struct UnknownInput {
    is_strict: bool,
    /// `true` once the whole input was read.
    is_judged: bool,
    /// The first ones, with their names as they are sent.
    named: Vec<InputFault>,
}

impl UnknownInput {
    /// Begins without any, and reads whether the client wants it refused.
    pub(crate) fn new(headers: &HeaderMap) -> Self {
        Self { is_strict: prefers_strict(headers), ..Self::default() }
    }

    /// Adds a name, of which the answer has 64 characters of a URL (RFC 3986 §2): nothing that could end its
    /// field or forge another one, and no key.
    pub(crate) fn add(&mut self, place: Place, name: &str) {
        if self.named.len() == MAX_NAMES {
            return;
        }
        let mut shown = String::new();
        for piece in utf8_percent_encode(&redact(name), RESERVED) {
            let left = MAX_NAME_LEN - shown.len();
            // An encoded byte is never cut. All pieces are ASCII.
            let is_whole = piece.len() <= left;
            shown +=
                if piece.starts_with('%') && !is_whole { "" } else { piece.get(..left).unwrap_or(piece) };
            if !is_whole {
                break;
            }
        }
        let named = InputFault::new(place, shown, "is unknown".to_owned());
        if !self.named.contains(&named) {
            self.named.push(named);
        }
    }

    /// Adds every parameter of a query, for an operation that has none.
    pub(crate) fn add_query(&mut self, uri: &Uri) {
        let parameters = uri.query().into_iter().flat_map(|query| query.split('&'));
        for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
            let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
            self.add(Place::Query, &percent_decode_str(name).decode_utf8_lossy());
        }
    }

    /// Refuses the request if its client prefers that and there is any.
    pub(crate) fn refuse(&mut self) -> Result<(), ApiError> {
        self.is_judged = true;
        if self.is_strict && !self.named.is_empty() {
            let names = self.named.iter().map(|InputFault { place, name, .. }| match place {
                Place::Query => format!("the parameter {name:?}"),
                Place::Body => format!("the field {name:?}"),
            });
            let names = names.collect::<Vec<_>>().join(", ");
            let message = format!("this operation does not have {names}");
            return Err(ApiError::UnknownInput(Faults::new(message, self.named.clone())));
        }
        Ok(())
    }

    /// Writes the names into the answer, or that the preference was followed.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if self.is_strict && self.is_judged {
            headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static("handling=strict"));
        } else if !self.is_strict && !self.named.is_empty() {
            // A list of strings with a parameter (RFC 9651 §3.1)
            let names = self.named.iter().map(|InputFault { place, name, .. }| match place {
                Place::Query => format!("\"{name}\";in=query"),
                Place::Body => format!("\"{name}\";in=body"),
            });
            let names = names.collect::<Vec<_>>().join(", ");
            if let Ok(names) = HeaderValue::try_from(names) {
                headers.insert(X_IGNORED_INPUT, names);
            }
        }
    }
}

/// Returns `true` if the first `handling` among the preferences is `strict` (RFC 7240 §4.4).
fn prefers_strict(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(PREFER).into_iter().filter_map(|field| field.to_str().ok());
    let handling = fields.flat_map(|field| field.split(',')).take(MAX_ITEMS).find_map(|preference| {
        let preference = preference.split(';').next()?; // parameters of `handling` have no meaning
        let (name, value) = preference.split_once('=')?;
        name.trim().eq_ignore_ascii_case("handling").then_some(value.trim())
    });
    matches!(handling, Some("strict" | "\"strict\""))
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    fn written(unknown: &UnknownInput) -> Option<String> {
        let mut headers = HeaderMap::new();
        unknown.write(&mut headers);
        headers.get(X_IGNORED_INPUT).map(|names| names.to_str().unwrap().to_owned())
    }

    fn named(names: &[&str]) -> Option<String> {
        let mut unknown = UnknownInput::default();
        for name in names {
            unknown.add(Place::Body, name);
        }
        written(&unknown)
    }

    #[test]
    fn a_name_is_sent_once_with_its_place() {
        let mut unknown = UnknownInput::default();
        unknown.add_query(&Uri::from_static("/v1/pets?li%6Dt=5&&x=1&x=2&flag&=y"));
        unknown.add(Place::Body, "x");
        let names = r#""limt";in=query, "x";in=query, "flag";in=query, "";in=query, "x";in=body"#;
        assert_eq!(written(&unknown).unwrap(), names);
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn at_most_8_names_of_64_characters_are_sent_and_no_encoded_byte_is_cut() {
        let many: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(named(&many), named(&many[..8]));
        let cut = |name: &str| named(&[name]).unwrap().split('"').nth(1).unwrap().to_owned();
        assert_eq!(cut(&"x".repeat(65)), "x".repeat(64));
        assert_eq!(cut(&format!("{}\u{e9}", "x".repeat(61))), format!("{}%C3", "x".repeat(61)));
        assert_eq!(cut(&format!("{}\u{e9}", "x".repeat(62))), "x".repeat(62));
    }

    #[test]
    fn a_name_forges_no_field_and_shows_no_key() {
        let forged = named(&["a\r\nset-cookie: b=\"c\", \\"]).unwrap();
        assert_eq!(forged, r#""a%0D%0Aset-cookie%3A%20b%3D%22c%22%2C%20%5C";in=body"#);
        assert_eq!(named(&["pet_live_0000"]).unwrap(), r#""pet_live_%E2%80%A6";in=body"#);
    }

    #[test]
    fn strict_handling_is_preferred_by_the_first_handling() {
        let strict = |fields: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(PREFER, HeaderValue::from_static(field));
            }
            prefers_strict(&headers)
        };
        for fields in [
            &["handling=strict"][..],
            &["respond-async, Handling = \"strict\"; x=y"],
            &["wait=5", "handling=strict, handling=lenient"],
        ] {
            assert!(strict(fields), "{fields:?}");
        }
        for fields in
            [&[][..], &["handling=lenient, handling=strict"], &["handling"], &["strict"], &["x=strict"]]
        {
            assert!(!strict(fields), "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn any_names_are_a_bounded_field(names in collection::vec("\\PC{0,80}|[\\x00-\\x7f]{0,80}", 1..12)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            prop_assert!(named(&names).unwrap().len() <= MAX_NAMES * (MAX_NAME_LEN + 13));
        }
    }
}
