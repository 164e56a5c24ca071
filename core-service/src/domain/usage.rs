//! Counts of requests, by UTC day and by minute.

use std::fmt;

use petstore_clock::UnixMillis;

use super::{AccountId, KeyId, Refusal, RefusalCount, Violation};

/// A UTC calendar day: days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

impl Day {
    const SECS: u64 = 86_400;
    /// 9999-12-31.
    const MAX: i64 = 2_932_896;

    /// Returns the day of a time.
    #[must_use]
    pub fn containing(moment: UnixMillis) -> Self {
        Self(i64::try_from(moment.as_secs() / Self::SECS).unwrap_or(i64::MAX))
    }

    /// Returns the start of the day.
    #[must_use]
    pub fn start(self) -> UnixMillis {
        UnixMillis::from_secs(u64::try_from(self.0).unwrap_or_default().saturating_mul(Self::SECS))
    }

    /// Returns the day that is `days` before.
    #[must_use]
    pub fn minus(self, days: i64) -> Self {
        Self(self.0.saturating_sub(days))
    }
}

/// Writes a date such as `2026-11-20`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let midnight = self.start().to_string();
        f.write_str(midnight.split('T').next().unwrap_or_default())
    }
}

/// A minute of UTC: minutes since 1970-01-01T00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(pub i64);

impl Minute {
    /// Number of minutes that are kept: those of 24 hours.
    pub const KEPT: i64 = 1_440;
    const SECS: u64 = 60;
    /// 9999-12-31T23:59Z.
    const MAX: i64 = (Day::MAX + 1) * 1_440 - 1;

    /// Returns the minute of a time.
    #[must_use]
    pub fn containing(moment: UnixMillis) -> Self {
        Self(i64::try_from(moment.as_secs() / Self::SECS).unwrap_or(i64::MAX))
    }

    /// Returns the start of the minute.
    #[must_use]
    pub fn start(self) -> UnixMillis {
        UnixMillis::from_secs(u64::try_from(self.0).unwrap_or_default().saturating_mul(Self::SECS))
    }

    /// Returns the minute that is `minutes` before.
    #[must_use]
    pub fn minus(self, minutes: i64) -> Self {
        Self(self.0.saturating_sub(minutes))
    }

    /// Returns the day that the minute belongs to.
    pub(crate) fn day(self) -> Day {
        Day(self.0.div_euclid(1_440))
    }

    /// Returns `true` if the minute is from 1970 to 9999.
    pub(crate) fn is_valid(self) -> bool {
        (0..=Self::MAX).contains(&self.0)
    }
}

/// Maximum of any count: sums of several stay exact, also for clients whose numbers are doubles.
pub(crate) const MAX_COUNT: i64 = 1_000_000_000_000_000;

/// The requests of one minute that a gateway reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageMinute {
    pub(crate) minute: Minute,
    /// Key; `None` for requests that count for their day alone.
    pub(crate) key_id: Option<KeyId>,
    /// Number of answers with 2xx, with 4xx except 429, with 429, with 5xx, and of calls of the deprecated
    /// getPet, which are among the others too.
    pub(crate) counts: [i64; 5],
}

impl UsageMinute {
    /// Makes the counts that a gateway reports.
    ///
    /// # Errors
    ///
    /// If the minute is not from 1970 to 9999, or a count is negative or above [`MAX_COUNT`].
    pub(crate) fn new(minute: Minute, key_id: Option<KeyId>, counts: [i64; 5]) -> Result<Self, Violation> {
        for (holds, rule) in [
            (minute.is_valid(), "must have minutes from 1970 to 9999"),
            (counts.iter().all(|count| *count >= 0), "must not have negative numbers"),
            (counts.iter().all(|count| *count <= MAX_COUNT), "must not have counts above 1000000000000000"),
        ] {
            if !holds {
                return Err(Violation::new("requests", rule));
            }
        }
        Ok(Self { minute, key_id, counts })
    }
}

/// A report of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageReport {
    /// Requests by account, minute and key, each once.
    pub(crate) requests: Vec<(AccountId, UsageMinute)>,
    /// A sample of the requests that were refused.
    pub(crate) refusals: Vec<Refusal>,
    /// Number of refused requests by minute and cause, each once.
    pub(crate) refusal_counts: Vec<RefusalCount>,
}

/// Checks the name of a gateway's run: 1 to 64 visible ASCII characters.
///
/// # Errors
///
/// If the name is not of that form.
pub(crate) fn check_reporter(name: &str) -> Result<(), Violation> {
    if (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Violation::new("reporter", "must be 1 to 64 visible ASCII characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_and_reads_as_a_date() {
        let midnight = UnixMillis::from_secs(1_795_132_800); // 2026-11-20T00:00:00Z
        assert_eq!(Day::containing(midnight).to_string(), "2026-11-20");
        assert_eq!(Day::containing(UnixMillis(midnight.0 - 1)), Day::containing(midnight).minus(1));
        assert_eq!(Day(-5).to_string(), "1970-01-01");
    }

    #[test]
    fn the_last_minute_belongs_to_the_last_day() {
        assert_eq!(Day::containing(Minute(Minute::MAX).start()), Day(Day::MAX));
        assert!(
            Minute(Minute::MAX).is_valid() && !Minute(Minute::MAX + 1).is_valid() && !Minute(-1).is_valid()
        );
        assert_eq!(Minute::containing(UnixMillis(119_999)).start(), UnixMillis(60_000));
    }
}
