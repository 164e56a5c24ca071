//! Durations as settings write them: `90d`, `24h`, `30m`, `10s`, `500ms`.

use std::time::Duration;

/// Maximum duration of a hundred years: far beyond any use, and far below an overflow in time arithmetic.
const MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// Reason why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidDuration {
    #[error("must be a whole number and one unit of ms, s, m, h or d, such as 30s, 24h or 90d")]
    Malformed,
    #[error("must be more than zero")]
    Zero,
    #[error("must be at most 36500d")]
    TooLong,
}

/// Parses a duration that is not zero.
pub(crate) fn parse(written: &str) -> Result<Duration, InvalidDuration> {
    match parse_or_zero(written)? {
        Duration::ZERO => Err(InvalidDuration::Zero),
        duration => Ok(duration),
    }
}

/// Parses a duration, which may be `0s`.
pub(crate) fn parse_or_zero(written: &str) -> Result<Duration, InvalidDuration> {
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = written.split_at_checked(digits).ok_or(InvalidDuration::Malformed)?;
    let millis_per_unit: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(InvalidDuration::Malformed),
    };
    if number.is_empty() {
        return Err(InvalidDuration::Malformed);
    }
    number
        .parse::<u64>()
        .ok() // only digits, so what fails is too long
        .and_then(|number| number.checked_mul(millis_per_unit))
        .map(Duration::from_millis)
        .filter(|duration| *duration <= MAX)
        .ok_or(InvalidDuration::TooLong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_as_long_as_its_name_says() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("30m"), Ok(Duration::from_mins(30)));
        assert_eq!(parse("24h"), Ok(Duration::from_hours(24)));
        assert_eq!(parse("90d"), Ok(Duration::from_hours(90 * 24)));
    }

    #[test]
    fn zero_is_refused_unless_allowed() {
        assert_eq!(parse("0s"), Err(InvalidDuration::Zero));
        assert_eq!(parse_or_zero("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn a_duration_is_one_number_and_one_unit() {
        for written in
            ["", "d", "10", "-1d", "+1d", "1.5h", "1 d", " 1d", "1d ", "1D", "1h30m", "1w", "١d", "1µs"]
        {
            assert_eq!(parse(written), Err(InvalidDuration::Malformed), "{written:?}");
        }
    }

    #[test]
    fn a_duration_is_at_most_a_hundred_years() {
        assert_eq!(parse("36500d"), Ok(MAX));
        for written in ["36501d", "3153600000001ms", "18446744073709551615d", "99999999999999999999999s"] {
            assert_eq!(parse(written), Err(InvalidDuration::TooLong), "{written:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(written in ".{0,30}") {
            let _ = parse(&written);
        }
    }
}
