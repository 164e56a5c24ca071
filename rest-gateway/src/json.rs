//! Request and response bodies: JSON on one side, the gRPC messages on the other.
//!
//! This module checks JSON (RFC 8259) and shape: the members and their types. The core judges the values.
//! Parsers disagree about the cases that RFC 8259 leaves open, and an attacker uses the difference. So a
//! member name occurs once in an object, strings are Unicode, and nesting is bounded.

use std::{borrow::Cow, fmt};

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::error::{ApiError, InputFault, Place};

/// Maximum depth of nested arrays and objects.
const MAX_DEPTH: usize = 64;

/// Returns the members of a body that has to be a JSON object, with their values.
///
/// # Errors
///
/// If it is not strict JSON: a name occurs twice, it is nested too deep, a text is not Unicode, or a number
/// is beyond those of floating point.
pub fn strict_members(body: &[u8]) -> Result<Vec<(String, Value)>, ApiError> {
    let member = |(name, raw): (Cow<'_, str>, &RawValue)| match serde_json::from_str(raw.get()) {
        Ok(value) => Ok((name.into_owned(), value)),
        Err(_) => Err(malformed(format!("JSON without numbers beyond 1.7e308, as in {name}"))),
    };
    object(body)?.0.into_iter().map(member).collect()
}

/// Returns an answer with a JSON body.
pub fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().reserve(16); // most answers have that many fields
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns an object.
pub(crate) fn object_body(object: &impl Serialize) -> Vec<u8> {
    // Serialising strings and numbers into memory does not fail.
    serde_json::to_vec(object).unwrap_or_default()
}

/// Resource that the members of a JSON object describe.
pub(crate) trait FromMembers: Sized {
    /// Names of the members that it has. Others are ignored.
    const MEMBERS: &'static [&'static str];

    /// Reads the resource, or returns one error that names every member that is missing or has the wrong
    /// type.
    fn from_members(members: &Members<'_>) -> Result<Self, ApiError>;
}

/// Members of an object in their order, each value unparsed.
#[derive(Debug)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// Returns the member as `parse` reads it, `None` if it is omitted, or its fault.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Result<Option<T>, InputFault> {
        self.get(name).map(parse).transpose().map_err(fault(name))
    }
}

/// Returns the value of a member that may not be omitted, or its fault.
pub(crate) fn required<T>(name: &str, value: Result<Option<T>, InputFault>) -> Result<T, InputFault> {
    value?.ok_or_else(|| fault(name)("is required".to_owned()))
}

/// Returns the function that makes the fault of a member of the rule that it breaks.
pub(crate) fn fault(name: &str) -> impl FnOnce(String) -> InputFault {
    move |rule| InputFault::new(Place::Body, name, rule)
}

/// Returns the string, or the rule that it breaks.
pub(crate) fn text(value: &RawValue) -> Result<String, String> {
    let text = serde_json::from_str(value.get());
    text.map(|Text(text)| text.into_owned()).map_err(|_| "must be a string".to_owned())
}

/// Parses a whole number without fraction, exponent, plus sign and leading zeros, or returns the rule that it
/// breaks. These are the numbers that both JSON's grammar and Rust's for `i64` allow.
pub(crate) fn whole_number(written: &str) -> Result<i64, String> {
    let number = serde_json::from_str::<&RawValue>(written).ok().and_then(|_| written.parse().ok());
    let (least, most) = (i64::MIN, i64::MAX);
    number
        .ok_or_else(|| format!("must be a whole number from {least} to {most}, without fraction or exponent"))
}

/// Returns the word of an enumeration for a number of the contract, or `None` for 0, which means that the
/// field is omitted. The first of the `words` is that of 1.
pub(crate) fn word(words: &[&'static str], number: i32) -> Option<&'static str> {
    words.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

/// Returns the number of the contract for exactly this word of an enumeration.
pub(crate) fn number(words: &[&str], word: &str) -> Option<u8> {
    let index = words.iter().position(|known| *known == word)?;
    u8::try_from(index + 1).ok()
}

/// Returns the rule that a value breaks which is none of the words.
pub(crate) fn words_rule(words: &[&str]) -> String {
    format!("must be one of {}", words.join(", "))
}

/// Returns an array of these objects.
pub(crate) fn array_body(objects: impl ExactSizeIterator<Item: Serialize>) -> Vec<u8> {
    // Typical length of a row, so that a page is seldom copied while it grows
    let mut body = Vec::with_capacity(objects.len().saturating_mul(96));
    // Serialising strings and numbers into memory does not fail.
    let _ = serde_json::Serializer::new(&mut body).collect_seq(objects);
    body
}

/// Returns the members of the object that `body` has to be. The whole body is checked, including members that
/// are not used.
pub(crate) fn object(body: &[u8]) -> Result<Members<'_>, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("UTF-8"))?;
    // Checks the grammar of the whole, without recursion and without judging the size of numbers.
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| malformed(format!("one JSON value: {error}")))?;
    check(value.get())?;
    // Nothing else can be wrong with it now.
    let no_object = |_| ApiError::ValidationFailed("the body must be a JSON object".to_owned().into());
    serde_json::from_str(value.get()).map_err(no_object)
}

fn malformed(rule: impl fmt::Display) -> ApiError {
    ApiError::MalformedJson(format!("the body must be {rule}"))
}

/// Checks the rules beyond the grammar, which the text follows, in one pass: a level that is scanned by
/// itself would multiply the time by the depth.
fn check(json: &str) -> Result<(), ApiError> {
    let mut names_around: Vec<Vec<Cow<'_, str>>> = Vec::new(); // of the objects, none of arrays
    let mut rest = json;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']')) {
        let (before, from) = (&rest[at..], at + 1);
        rest = &rest[from..];
        match before.as_bytes() {
            [b'{' | b'[', ..] if names_around.len() == MAX_DEPTH => {
                return Err(malformed(format!("JSON nested at most {MAX_DEPTH} deep")));
            }
            [b'{' | b'[', ..] => names_around.push(Vec::new()),
            [b'"', ..] => {
                let mut strings = serde_json::Deserializer::from_str(before).into_iter();
                let Some(Ok(Text(text))) = strings.next() else {
                    return Err(malformed("JSON whose strings are Unicode text, without lone surrogates"));
                };
                rest = &before[strings.byte_offset()..];
                if let Some(names) = names_around.last_mut().filter(|_| rest.trim_start().starts_with(':')) {
                    names.push(text);
                }
            }
            _ => {
                let mut names = names_around.pop().unwrap_or_default();
                names.sort_unstable();
                if names.array_windows().any(|[one, other]| one == other) {
                    return Err(malformed("JSON without duplicate members"));
                }
            }
        }
    }
    Ok(())
}

/// String, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

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
        let members = object(body.as_bytes()).unwrap();
        members.0.iter().map(|(name, _)| name.clone().into_owned()).collect()
    }

    fn refusal(body: impl AsRef<[u8]>) -> &'static str {
        let error = object(body.as_ref()).unwrap_err();
        assert!(matches!(error, ApiError::MalformedJson(_)), "{error}");
        let kinds = [
            ("be UTF-8", "not UTF-8"),
            ("be one JSON value: ", "syntax"),
            ("without lone surrogates", "lone surrogate"),
            ("without duplicate members", "duplicate"),
            ("nested at most 64 deep", "too deep"),
        ];
        kinds.into_iter().find(|(rule, _)| error.to_string().contains(rule)).unwrap().1
    }

    fn is_json(body: &[u8]) -> bool {
        !matches!(object(body), Err(ApiError::MalformedJson(_)))
    }

    #[test]
    fn members_keep_their_order_and_unescaped_names() {
        assert_eq!(names(r#" {"b": 1, "\u0061": {"c": [2]}, "": null} "#), ["b", "a", ""]);
    }

    #[test]
    fn another_json_value_is_not_an_object_but_still_json() {
        for body in ["[]", "1", "\"text\"", "null", "true", " [{}] "] {
            assert!(matches!(object(body.as_bytes()), Err(ApiError::ValidationFailed(_))), "{body}");
        }
    }

    #[test]
    fn a_text_outside_the_grammar_is_refused() {
        let bodies = [
            "", " ", "{", "{}{}", "{} x", "[1,]", "{'a':1}", "{a:1}", "01", "1.", "+1", ".5", "-", "NaN",
            "nul", "\"\n\"", "\"\\x\"", "/**/{}", "{}\u{0}", "1e",
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
        assert!(is_json(nested(64).as_bytes()));
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

    #[test]
    fn a_number_too_large_for_any_type_has_the_name_of_its_member() {
        for (body, name) in [(r#"{"x": 1e999}"#, "x"), (r#"{"a": 1, "y": {"c": [7, {"d": -1e999}]}}"#, "y")] {
            let error = strict_members(body.as_bytes()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("numbers beyond 1.7e308, as in {name}")), "{error}");
        }
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
            prop_assert!(is_json(&body));
            match (object(&body), value.as_object()) {
                (Ok(read), Some(written)) => {
                    prop_assert_eq!(read.0.len(), written.len());
                    for (name, value) in written {
                        let raw = read.get(name).unwrap();
                        prop_assert_eq!(&serde_json::from_str::<Value>(raw.get()).unwrap(), value);
                    }
                }
                (read, written) => prop_assert_eq!(read.is_err(), written.is_none()),
            }
        }

        #[test]
        fn no_bytes_panic_and_none_are_accepted_that_serde_json_refuses(
            body in proptest::collection::vec(
                proptest::sample::select(&b"{}[]\",:\\ua0eE.+-1dD8\x80\xc3 \ntruefalsn"[..]),
                0..40,
            ),
        ) {
            if is_json(&body) {
                // serde_json refuses numbers beyond f64 on top of the grammar.
                let verdict = serde_json::from_slice::<Value>(&body);
                let is_a_number = |error: &serde_json::Error| error.to_string().contains("out of range");
                prop_assert!(verdict.as_ref().err().is_none_or(is_a_number));
            }
        }
    }
}
