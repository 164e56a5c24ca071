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

/// Number of requests by the class of their answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers with 2xx.
    pub succeeded: i64,
    /// Answers with 4xx, 429 excepted.
    pub client_errors: i64,
    /// Answers with 429.
    pub refused: i64,
    /// Answers with 5xx.
    pub server_errors: i64,
    /// Calls of the deprecated getPet, which also count above.
    pub get_pet: i64,
}

impl Tally {
    /// Maximum of any count of a day: sums of several stay exact, also for clients whose numbers are doubles.
    pub(crate) const MAX: i64 = 1_000_000_000_000_000;

    /// Returns the counts in the order of the fields.
    pub(crate) fn counts(&self) -> [i64; 5] {
        [self.succeeded, self.client_errors, self.refused, self.server_errors, self.get_pet]
    }

    /// Returns the sum, each count at most [`Self::MAX`].
    pub(crate) fn plus(self, more: Self) -> Self {
        let sum = |one: i64, other: i64| one.saturating_add(other).min(Self::MAX);
        Self {
            succeeded: sum(self.succeeded, more.succeeded),
            client_errors: sum(self.client_errors, more.client_errors),
            refused: sum(self.refused, more.refused),
            server_errors: sum(self.server_errors, more.server_errors),
            get_pet: sum(self.get_pet, more.get_pet),
        }
    }
}

/// The requests of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageDay {
    /// The day.
    pub day: Day,
    /// Number of requests.
    pub tally: Tally,
}

/// The requests of one minute, of one key or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageMinute {
    /// The minute.
    pub minute: Minute,
    /// Key; `None` in sums over several, and for requests that count for their day alone.
    pub key_id: Option<KeyId>,
    /// Number of requests.
    pub tally: Tally,
}

impl UsageMinute {
    /// Makes the counts that a gateway reports.
    ///
    /// # Errors
    ///
    /// If the minute is not from 1970 to 9999, or a count is negative or above [`Tally::MAX`].
    pub(crate) fn new(minute: Minute, key_id: Option<KeyId>, tally: Tally) -> Result<Self, Violation> {
        let counts = tally.counts();
        for (holds, rule) in [
            (minute.is_valid(), "must have minutes from 1970 to 9999"),
            (counts.iter().all(|count| *count >= 0), "must not have negative numbers"),
            (counts.iter().all(|count| *count <= Tally::MAX), "must not have counts above 1000000000000000"),
        ] {
            if !holds {
                return Err(Violation::new("requests", rule));
            }
        }
        Ok(Self { minute, key_id, tally })
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

/// Name of a gateway's run: 1 to 64 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReporterName(String);

impl ReporterName {
    const MAX_LEN: usize = 64;

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// If the name is not of that form.
    pub(crate) fn parse(raw: String) -> Result<Self, Violation> {
        if (1..=Self::MAX_LEN).contains(&raw.len()) && raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(raw))
        } else {
            Err(Violation::new("reporter", "must be 1 to 64 visible ASCII characters"))
        }
    }

    /// Returns the name.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
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
