//! What accounts asked for, by UTC day.

use std::fmt;

use petstore_clock::UnixMillis;

/// A UTC calendar day: days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

impl Day {
    const SECS: u64 = 86_400;

    /// The day that the moment belongs to.
    #[must_use]
    pub fn of(moment: UnixMillis) -> Self {
        Self(i64::try_from(moment.as_secs() / Self::SECS).unwrap_or(i64::MAX))
    }

    /// So many days before.
    #[must_use]
    pub fn minus(self, days: i64) -> Self {
        Self(self.0.saturating_sub(days))
    }
}

/// `2026-11-20`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = u64::try_from(self.0).unwrap_or_default();
        let midnight = UnixMillis::from_secs(days.saturating_mul(Self::SECS)).to_string();
        f.write_str(midnight.split('T').next().unwrap_or_default())
    }
}

/// How many requests were answered how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// With 2xx.
    pub succeeded: i64,
    /// With 4xx, 429 excepted.
    pub client_errors: i64,
    /// With 429.
    pub refused: i64,
    /// With 5xx.
    pub server_errors: i64,
    /// Calls of the deprecated getPet; they are among the others too.
    pub get_pet: i64,
}

/// The requests of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageDay {
    /// The day.
    pub day: Day,
    /// Its requests.
    pub tally: Tally,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_and_reads_as_a_date() {
        let midnight = UnixMillis::from_secs(1_795_132_800); // 2026-11-20T00:00:00Z
        assert_eq!(Day::of(midnight).to_string(), "2026-11-20");
        assert_eq!(Day::of(UnixMillis(midnight.0 - 1)), Day::of(midnight).minus(1));
        assert_eq!(Day(-5).to_string(), "1970-01-01");
    }
}
