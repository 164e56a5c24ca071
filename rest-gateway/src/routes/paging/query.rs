//! The query of a list (docs/contract.md, 7.1 and 7.2).

use std::borrow::Cow;

use petstore_proto::v1::PetStatus;

use super::parameters::{self, Parameter};
use crate::json::pet::{STATUS_WORDS, status_from_word};

/// The parameters, each judged by itself: what was given, if anything, or what is wrong with it. Other
/// parameters are ignored.
#[derive(Debug, PartialEq)]
pub(in crate::routes) struct Query<'a> {
    pub(in crate::routes) limit: Result<Option<u8>, String>,
    pub(in crate::routes) status: Result<Option<PetStatus>, String>,
    pub(in crate::routes) cursor: Result<Option<Cow<'a, str>>, String>,
}

impl<'a> Query<'a> {
    pub(in crate::routes) fn parse(query: &'a str) -> Self {
        let [limit, status, cursor] = parameters::given(query, ["limit", "status", "cursor"]);
        Self {
            limit: parameters::limit(limit),
            status: judge_status(status),
            cursor: parameters::cursor(cursor),
        }
    }
}

fn judge_status(parameter: Parameter<'_>) -> Result<Option<PetStatus>, String> {
    parameter.judge(|word| status_from_word(&word), || format!("status must be one of {STATUS_WORDS}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_needs_to_be_given() {
        for query in ["", "&", "x=1&y", "Limit=0&STATUS=&=5"] {
            assert_eq!(Query::parse(query), Query { limit: Ok(None), status: Ok(None), cursor: Ok(None) });
        }
    }

    #[test]
    fn parameters_are_read_in_any_order_and_percent_encoding() {
        let query = Query::parse("cursor=a%2Bb%3D+c&x=%ff&stat%75s=s%6Fld&limit=%35");
        assert_eq!(query.limit, Ok(Some(5)));
        assert_eq!(query.status, Ok(Some(PetStatus::Sold)));
        assert_eq!(query.cursor, Ok(Some("a+b=+c".into())));
    }

    #[test]
    fn a_limit_is_a_whole_number_from_1_to_100() {
        for (digits, limit) in [("1", 1), ("20", 20), ("100", 100)] {
            assert_eq!(Query::parse(&format!("limit={digits}")).limit, Ok(Some(limit)));
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
            let refused = Query::parse(&format!("limit={digits}")).limit.unwrap_err();
            assert_eq!(refused, "limit must be a whole number from 1 to 100", "{digits}");
        }
        assert!(Query::parse("limit").limit.is_err());
        assert!(Query::parse("limit=5&limit=5").limit.is_err());
        assert!(Query::parse("limit=5&limit=5&limit=5").limit.is_err());
    }

    #[test]
    fn a_status_is_one_of_three_words_exactly() {
        for word in ["", "Sold", "sold,pending", "sold%20", "unknown", "%ff"] {
            let refused = Query::parse(&format!("status={word}")).status.unwrap_err();
            assert_eq!(refused, "status must be one of available, pending, sold", "{word}");
        }
        assert!(Query::parse("status=sold&status=sold").status.is_err());
    }

    #[test]
    fn a_cursor_is_not_empty_and_given_once() {
        for query in ["cursor=", "cursor", "cursor=a&cursor=a", "cursor=%ff"] {
            assert!(Query::parse(query).cursor.is_err(), "{query}");
        }
    }

    proptest! {
        #[test]
        fn no_query_makes_parsing_panic(query in "([a-z&=%+]|limit=|status=|cursor=|\\PC){0,30}") {
            let _ = Query::parse(&query);
        }

        #[test]
        fn only_1_to_100_are_limits(number: i64) {
            let query = format!("limit={number}");
            prop_assert_eq!(Query::parse(&query).limit.is_ok(), (1..=100).contains(&number));
        }
    }
}
