//! Values of settings that are words or numbers, with errors in plain words.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// Returns a parser of whole numbers within the range.
pub(crate) fn whole_number<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |written| {
        let is_canonical = written.bytes().all(|byte| byte.is_ascii_digit());
        let number = written.parse().ok().filter(|number| is_canonical && range.contains(number));
        number.ok_or_else(|| format!("must be a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Parses a switch, and returns `true` if it is on. This is the value of its variable: the flag itself needs
/// none.
pub(crate) fn is_on(written: &str) -> Result<bool, &'static str> {
    match written.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "t" | "y" => Ok(true),
        "false" | "no" | "off" | "0" | "f" | "n" => Ok(false),
        _ => Err("must be true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_whole_and_within_its_range() {
        let parse = whole_number(1..=65_535_u16);
        assert_eq!((parse("1"), parse("65535")), (Ok(1), Ok(65_535)));
        for written in ["0", "65536", "-1", "+1", "1.0", "x", "", "99999999999999999999999"] {
            assert_eq!(parse(written).unwrap_err(), "must be a whole number from 1 to 65535", "{written}");
        }
    }

    #[test]
    fn a_switch_is_true_or_false() {
        for (written, value) in [("true", true), ("ON", true), ("1", true), ("false", false), ("no", false)] {
            assert_eq!(is_on(written), Ok(value));
        }
        for written in ["", "maybe", "2"] {
            assert!(is_on(written).is_err(), "{written}");
        }
    }
}
