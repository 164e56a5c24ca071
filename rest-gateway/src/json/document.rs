//! Strict JSON. Parsers disagree about the cases that RFC 8259 leaves open, and an attacker uses the
//! difference. So a member name occurs once in an object, strings are Unicode, and nesting is bounded.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Maximum depth of nested arrays and objects.
const MAX_DEPTH: usize = 64;

/// Reason why a body is not strict JSON.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the body must be UTF-8")]
    NotUtf8,
    #[error("the body must be one JSON value: {0}")]
    Syntax(serde_json::Error),
    #[error("the body must be JSON whose strings are Unicode text, without lone surrogates")]
    LoneSurrogate,
    #[error("the body must be JSON whose objects name each member once")]
    DuplicateMember,
    #[error("the body must be JSON nested at most {MAX_DEPTH} deep")]
    TooDeep,
}

/// Members of an object in their order, each value unparsed.
#[derive(Debug)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Returns each member with its value. Numbers that do not fit become floating-point numbers.
    pub(super) fn into_values(self) -> Vec<(String, serde_json::Value)> {
        // Known to be JSON
        let value = |value: &RawValue| serde_json::from_str(value.get()).unwrap_or_default();
        self.0.into_iter().map(|(name, raw)| (name.into_owned(), value(raw))).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }
}

/// Returns the members of the object that `body` is, or `None` if it is another JSON value. The whole body is
/// checked, including members that are not used.
pub(super) fn object(body: &[u8]) -> Result<Option<Members<'_>>, Malformed> {
    let text = std::str::from_utf8(body).map_err(|_| Malformed::NotUtf8)?;
    // Checks the grammar of the whole, without recursion and without judging the size of numbers.
    let value: &RawValue = serde_json::from_str(text).map_err(Malformed::Syntax)?;
    check(value, 1)?;
    if value.get().starts_with('{') { members(value).map(Some) } else { Ok(None) }
}

/// Checks the rules beyond the grammar. Each level is scanned once more than the one around it: at most
/// `MAX_DEPTH` times the body's length.
fn check(value: &RawValue, depth: usize) -> Result<(), Malformed> {
    match value.get().as_bytes().first() {
        Some(b'{' | b'[') if depth > MAX_DEPTH => Err(Malformed::TooDeep),
        Some(b'{') => members(value)?.0.iter().try_for_each(|(_, member)| check(member, depth + 1)),
        Some(b'[') => {
            let elements: Vec<&RawValue> = parse(value)?;
            elements.into_iter().try_for_each(|element| check(element, depth + 1))
        }
        Some(b'"') => parse::<Text<'_>>(value).map(drop),
        _ => Ok(()), // numbers, true, false, null
    }
}

fn members(object: &RawValue) -> Result<Members<'_>, Malformed> {
    let members: Members<'_> = parse(object)?;
    let mut names: Vec<&str> = members.0.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
        return Err(Malformed::DuplicateMember);
    }
    Ok(members)
}

/// Parses a value that is known to follow the grammar. The only possible fault is a lone surrogate.
fn parse<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, Malformed> {
    serde_json::from_str(value.get()).map_err(|_| Malformed::LoneSurrogate)
}

/// String, borrowed unless it has escapes.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Gather;

        impl<'de> Visitor<'de> for Gather {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Gather)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn names(body: &str) -> Vec<String> {
        let members = object(body.as_bytes()).unwrap().unwrap();
        members.0.iter().map(|(name, _)| name.clone().into_owned()).collect()
    }

    fn refusal(body: impl AsRef<[u8]>) -> &'static str {
        match object(body.as_ref()).unwrap_err() {
            Malformed::NotUtf8 => "not UTF-8",
            Malformed::Syntax(_) => "syntax",
            Malformed::LoneSurrogate => "lone surrogate",
            Malformed::DuplicateMember => "duplicate",
            Malformed::TooDeep => "too deep",
        }
    }

    #[test]
    fn members_keep_their_order_and_unescaped_names() {
        assert_eq!(names(r#" {"b": 1, "\u0061": {"c": [2]}, "": null} "#), ["b", "a", ""]);
    }

    #[test]
    fn another_json_value_is_not_an_object_but_still_json() {
        for body in ["[]", "1", "\"text\"", "null", "true", " [{}] "] {
            assert!(object(body.as_bytes()).unwrap().is_none(), "{body}");
        }
    }

    #[test]
    fn a_text_outside_the_grammar_is_refused() {
        let bodies = [
            "",
            " ",
            "{",
            "{}{}",
            "{} x",
            "{\"a\":1,}",
            "[1,]",
            "{'a':1}",
            "{a:1}",
            "01",
            "1.",
            "+1",
            ".5",
            "-",
            "NaN",
            "Infinity",
            "nul",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "/**/{}",
            "\u{feff}{}",
            "{}\u{0}",
            "1e",
        ];
        for body in bodies {
            assert_eq!(refusal(body), "syntax", "{body:?}");
        }
    }

    #[test]
    fn invalid_utf_8_is_refused_wherever_it_is() {
        for body in [&b"\xff"[..], b"{\"a\":\"\xc3\x28\"}", b"{\"\xed\xa0\x80\":1}", b"{}\xfe"] {
            assert_eq!(refusal(body), "not UTF-8");
        }
    }

    #[test]
    fn a_member_named_twice_is_refused_at_any_depth_and_in_any_spelling() {
        for body in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"{"x":[{"y":{"a":1,"b":2,"a":3}}]}"#] {
            assert_eq!(refusal(body), "duplicate", "{body}");
        }
        assert_eq!(names(r#"{"a":{"a":{"a":1}},"A":2}"#), ["a", "A"]);
    }

    #[test]
    fn a_lone_surrogate_is_refused_in_names_and_values() {
        for body in
            [r#"{"a":"\ud800"}"#, r#"{"\udc00":1}"#, r#"["\ud800\ud800"]"#, r#"{"x":{"y":["\ud800x"]}}"#]
        {
            assert_eq!(refusal(body), "lone surrogate", "{body}");
        }
        assert!(object(br#"{"a":"\ud83d\udc15"}"#).is_ok());
    }

    #[test]
    fn nesting_is_limited_to_64_even_in_unknown_members() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(object(nested(64).as_bytes()).is_ok());
        assert_eq!(refusal(nested(65)), "too deep");
        assert!(object(format!(r#"{{"x":{}}}"#, nested(63)).as_bytes()).is_ok());
        assert_eq!(refusal(format!(r#"{{"x":{}}}"#, nested(64))), "too deep");
        assert_eq!(refusal(nested(30_000)), "too deep");
        assert_eq!(refusal("[".repeat(65_536)), "syntax");
    }

    #[test]
    fn a_number_too_large_for_any_type_is_still_json() {
        assert_eq!(names(r#"{"x":1e400,"y":-123456789012345678901234567890.5E-9}"#), ["x", "y"]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            // Eighths: serde_json reads other fractions back one bit off.
            any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(".{0,4}", inner, 0..6)
                    .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn serialised_values_are_read_unchanged(value in any_json(), pretty: bool) {
            let write = if pretty { serde_json::to_vec_pretty } else { serde_json::to_vec };
            let body = write(&value).unwrap();
            match (object(&body).unwrap(), value.as_object()) {
                (Some(read), Some(written)) => {
                    prop_assert_eq!(read.0.len(), written.len());
                    for (name, value) in written {
                        let raw = read.get(name).unwrap();
                        prop_assert_eq!(&serde_json::from_str::<Value>(raw.get()).unwrap(), value);
                    }
                }
                (read, written) => prop_assert_eq!(read.is_none(), written.is_none()),
            }
        }

        #[test]
        fn no_bytes_panic_and_none_are_accepted_that_serde_json_refuses(
            body in proptest::collection::vec(
                proptest::sample::select(&b"{}[]\",:\\ua0eE.+-1dD8\x80\xc3 \ntruefalsn"[..]),
                0..40,
            ),
        ) {
            if object(&body).is_ok() {
                // serde_json refuses numbers beyond f64 on top of the grammar.
                let verdict = serde_json::from_slice::<Value>(&body);
                let is_a_number = |error: &serde_json::Error| error.to_string().contains("out of range");
                prop_assert!(verdict.as_ref().err().is_none_or(is_a_number));
            }
        }
    }
}
