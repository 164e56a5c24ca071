//! Query parameters, and the two that every list has.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The most rows on a page.
const MAX_LIMIT: u8 = 100;

/// A parameter's value after percent-decoding (RFC 3986 §2.1).
#[derive(Default)]
pub(super) enum Parameter<'a> {
    #[default]
    Absent,
    Once(Cow<'a, str>),
    /// Given twice, or not UTF-8.
    Unreadable,
}

impl<'a> Parameter<'a> {
    /// What was given, if anything, or what is wrong with it.
    pub(super) fn judge<T>(
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

/// The parameters with these names, in their order. Others are ignored.
pub(super) fn given<'a, const N: usize>(query: &'a str, names: [&str; N]) -> [Parameter<'a>; N] {
    let mut given = [const { Parameter::Absent }; N];
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let name = percent_decode_str(name).decode_utf8_lossy();
        let Some((_, slot)) = names.iter().zip(&mut given).find(|(known, _)| **known == name) else {
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

/// `limit`: how many rows a page has at most.
pub(super) fn limit(parameter: Parameter<'_>) -> Result<Option<u8>, String> {
    parameter.judge(whole_number, || format!("limit must be a whole number from 1 to {MAX_LIMIT}"))
}

/// `cursor`. Opaque here: whether it is a cursor is the core's to say.
pub(super) fn cursor(parameter: Parameter<'_>) -> Result<Option<Cow<'_, str>>, String> {
    parameter.judge(
        |cursor| (!cursor.is_empty()).then_some(cursor),
        || "cursor must be given once, as the page before has it".to_owned(),
    )
}

/// `[1-9][0-9]*`, up to the most.
#[expect(clippy::needless_pass_by_value, reason = "a parser of a parameter takes the parameter")]
fn whole_number(digits: Cow<'_, str>) -> Option<u8> {
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|limit| canonical && *limit <= MAX_LIMIT)
}
