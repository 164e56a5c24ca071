//! Query of a list (docs/contract.md, 7.1 and 7.2).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::{
    json::{number, words_rule},
    problem::Place,
    unknown_input::UnknownInput,
};

/// Parameter that filters a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    /// Its values, in the order of their numbers in the contract.
    pub(crate) words: &'static [&'static str],
}

/// Parameters, each parsed separately: its value, if it was given, or its fault. Others are unknown
/// input.
#[derive(Debug, PartialEq)]
pub(crate) struct Query<'a> {
    pub(crate) limit: Result<Option<u8>, String>,
    /// Number of the filter's value in the contract.
    pub(crate) filter: Result<Option<u8>, String>,
    pub(crate) cursor: Result<Option<Cow<'a, str>>, String>,
}

impl<'a> Query<'a> {
    pub(crate) fn parse(query: &'a str, filter: Option<Filter>, unknown: &mut UnknownInput) -> Self {
        let name = filter.map(|filter| filter.name);
        let [limit, filtered, cursor] = given(query, [Some("limit"), name, Some("cursor")], unknown);
        let filter = filter.map_or(Ok(None), |Filter { name, words }| {
            filtered.judge(|word| number(words, &word), || format!("{name} {}", words_rule(words)))
        });
        Self { limit: parse_limit(limit), filter, cursor: parse_cursor(cursor) }
    }
}

/// Maximum number of rows on a page.
const MAX_LIMIT: u8 = 100;

/// Value of a parameter after percent-decoding (RFC 3986 §2.1).
#[derive(Default)]
enum Parameter<'a> {
    #[default]
    Absent,
    Once(Cow<'a, str>),
    /// The parameter occurs twice, or is not UTF-8.
    Unreadable,
}

impl<'a> Parameter<'a> {
    /// Returns the value of a parameter, if it was given, or its fault.
    fn judge<T>(
        self,
        parse: impl FnOnce(Cow<'a, str>) -> Option<T>,
        fault: impl FnOnce() -> String,
    ) -> Result<Option<T>, String> {
        match self {
            Self::Absent => Ok(None),
            Self::Once(value) => parse(value).map(Some).ok_or_else(fault),
            Self::Unreadable => Err(fault()),
        }
    }
}

/// Returns the parameters with these names, in their order.
fn given<'a, const N: usize>(
    query: &'a str,
    names: [Option<&str>; N],
    unknown: &mut UnknownInput,
) -> [Parameter<'a>; N] {
    let mut given = [const { Parameter::Absent }; N];
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let name = percent_decode_str(name).decode_utf8_lossy();
        let Some((_, slot)) = names.iter().zip(&mut given).find(|(known, _)| **known == Some(&*name)) else {
            if !parameter.is_empty() {
                unknown.add(Place::Query, &name);
            }
            continue;
        };
        *slot = match slot {
            Parameter::Absent => {
                percent_decode_str(value).decode_utf8().map_or(Parameter::Unreadable, Parameter::Once)
            }
            Parameter::Once(_) | Parameter::Unreadable => Parameter::Unreadable,
        };
    }
    given
}

/// Parses `limit`, the maximum number of rows on a page.
fn parse_limit(parameter: Parameter<'_>) -> Result<Option<u8>, String> {
    parameter.judge(whole_number, || format!("limit must be a whole number from 1 to {MAX_LIMIT}"))
}

/// Parses `cursor`, whose content is judged later.
fn parse_cursor(parameter: Parameter<'_>) -> Result<Option<Cow<'_, str>>, String> {
    parameter.judge(
        |cursor| (!cursor.is_empty()).then_some(cursor),
        || "cursor must be given once, as returned with the previous page".to_owned(),
    )
}

/// Parses `[1-9][0-9]*`, up to the maximum.
#[expect(clippy::needless_pass_by_value, reason = "a parser of a parameter takes the parameter")]
fn whole_number(digits: Cow<'_, str>) -> Option<u8> {
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|limit| canonical && *limit <= MAX_LIMIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::pet::STATUSES;

    fn parse(query: &str) -> Query<'_> {
        Query::parse(query, Some(Filter { name: "status", words: &STATUSES }), &mut UnknownInput::default())
    }

    #[test]
    fn all_parameters_are_optional() {
        for query in ["", "&", "x=1&y", "Limit=0&STATUS=&=5"] {
            assert_eq!(parse(query), Query { limit: Ok(None), filter: Ok(None), cursor: Ok(None) });
        }
    }

    #[test]
    fn parameters_are_read_in_any_order_and_percent_encoding() {
        let query = parse("cursor=a%2Bb%3D+c&x=%ff&stat%75s=s%6Fld&limit=%35");
        assert_eq!(query.limit, Ok(Some(5)));
        assert_eq!(query.filter, Ok(Some(3)));
        assert_eq!(query.cursor, Ok(Some("a+b=+c".into())));
    }

    #[test]
    fn a_limit_is_a_whole_number_from_1_to_100() {
        for (digits, limit) in [("1", 1), ("20", 20), ("100", 100)] {
            assert_eq!(parse(&format!("limit={digits}")).limit, Ok(Some(limit)));
        }
        let faults = [
            "0",
            "101",
            "",
            "-1",
            "+1",
            "01",
            "1.0",
            "1e1",
            "%201",
            "5%20",
            "x",
            "256",
            "99999999999",
            "%ff",
        ];
        for digits in faults {
            let refused = parse(&format!("limit={digits}")).limit.unwrap_err();
            assert_eq!(refused, "limit must be a whole number from 1 to 100", "{digits}");
        }
        assert!(parse("limit").limit.is_err());
        assert!(parse("limit=5&limit=5").limit.is_err());
        assert!(parse("limit=5&limit=5&limit=5").limit.is_err());
    }

    #[test]
    fn a_status_is_one_of_three_words_exactly() {
        for word in ["", "Sold", "sold,pending", "sold%20", "unknown", "%ff"] {
            let refused = parse(&format!("status={word}")).filter.unwrap_err();
            assert_eq!(refused, "status must be one of available, pending, sold", "{word}");
        }
        assert!(parse("status=sold&status=sold").filter.is_err());
    }

    #[test]
    fn a_list_without_a_filter_ignores_it() {
        assert_eq!(Query::parse("status=x&=y&limit=5", None, &mut UnknownInput::default()), parse("limit=5"));
    }

    #[test]
    fn an_empty_or_repeated_cursor_is_refused() {
        for query in ["cursor=", "cursor", "cursor=a&cursor=a", "cursor=%ff"] {
            assert!(parse(query).cursor.is_err(), "{query}");
        }
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
