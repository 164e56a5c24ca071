//! Values of settings that are words, numbers or durations, with errors in plain words.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Returns a parser of whole numbers within the range.
pub fn whole_number<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |written| {
        let number = written.parse().ok();
        let number = number.filter(|number: &N| number.to_string() == written && range.contains(number));
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

/// Returns a parser of two words, which returns `true` for the second one.
pub(crate) fn is_second(words: [&'static str; 2]) -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(words).map(move |written| written == words[1])
}

/// Maximum duration of a hundred years: far beyond any use, and far below an overflow in time arithmetic.
const MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// Parses a duration that is not zero.
///
/// # Errors
///
/// If it is not one number and one unit, is zero, or is more than a hundred years.
pub fn duration(written: &str) -> Result<Duration, &'static str> {
    match duration_or_zero(written)? {
        Duration::ZERO => Err("must be more than zero"),
        duration => Ok(duration),
    }
}

/// Parses a duration, which may be `0s`.
pub(crate) fn duration_or_zero(written: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "must be a whole number and one unit of ms, s, m, h or d, such as 30s, 24h or 90d";
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = written.split_at_checked(digits).filter(|_| digits > 0).ok_or(FORM)?;
    let millis_per_unit: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(FORM),
    };
    let number = number.parse::<u64>().ok(); // only digits, so what fails is too long
    let duration = number.and_then(|number| number.checked_mul(millis_per_unit)).map(Duration::from_millis);
    duration.filter(|duration| *duration <= MAX).ok_or("must be at most 36500d")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_as_long_as_its_name_says() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("30m"), Ok(Duration::from_mins(30)));
        assert_eq!(duration("24h"), Ok(Duration::from_hours(24)));
        assert_eq!(duration("90d"), Ok(Duration::from_hours(90 * 24)));
    }

    #[test]
    fn zero_is_refused_unless_allowed() {
        assert_eq!(duration("0s"), Err("must be more than zero"));
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn a_duration_is_one_number_and_one_unit() {
        for written in
            ["", "d", "10", "-1d", "+1d", "1.5h", "1 d", " 1d", "1d ", "1D", "1h30m", "1w", "١d", "1µs"]
        {
            let fault = duration(written).unwrap_err();
            assert!(fault.starts_with("must be a whole number and one unit"), "{written:?}: {fault}");
        }
    }

    #[test]
    fn a_duration_is_at_most_a_hundred_years() {
        assert_eq!(duration("36500d"), Ok(MAX));
        for written in ["36501d", "3153600000001ms", "18446744073709551615d", "99999999999999999999999s"] {
            assert_eq!(duration(written), Err("must be at most 36500d"), "{written:?}");
        }
    }

    #[test]
    fn a_number_is_whole_within_its_range_and_has_one_form() {
        let parse = whole_number(1..=65_535_u16);
        assert_eq!((parse("1"), parse("65535")), (Ok(1), Ok(65_535)));
        let refused = "0 65536 -1 +1 007 1.0 5e0 ٥ x 99999999999999999999999".split(' ');
        for written in refused.chain(["", " 5", "5 "]) {
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

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(written in ".{0,30}") {
            let _ = duration(&written);
        }
    }
}
