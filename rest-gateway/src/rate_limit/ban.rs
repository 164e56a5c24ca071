//! Bans of API keys, with their duration and cause (docs/contract.md, 6.8).

use std::{sync::Arc, time::Duration};

use petstore_clock::UnixMillis;

/// Period in which every request of a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPeriod {
    /// Time at which it was imposed.
    pub from: UnixMillis,
    /// First time after it; later than `from`.
    pub until: UnixMillis,
}

impl BanPeriod {
    /// Maximum duration of a ban that a gateway imposes.
    const LONGEST: Duration = Duration::from_hours(24);

    /// Time after the end of a ban in which it makes the next one longer.
    pub(crate) const MEMORY: Duration = Duration::from_hours(24);

    /// Returns the ban that begins at `from`: five minutes, or twice the duration of the key's last ban while
    /// that is remembered.
    pub(crate) fn following(last: Option<Self>, from: UnixMillis) -> Self {
        let length = match last {
            Some(last) if from < last.until.plus(Self::MEMORY) => {
                Self::LONGEST.min(Duration::from_millis(last.until.0.saturating_sub(last.from.0)) * 2)
            }
            Some(_) | None => Duration::from_mins(5),
        };
        Self { from, until: from.plus(length) }
    }
}

/// Cause of a ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanCause {
    /// The key kept sending after 429.
    IgnoredRefusals,
    /// An operator banned it, and may have given a reason.
    Operator(Option<Arc<str>>),
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixMillis = UnixMillis(1_795_200_000_000);

    fn minutes(ban: BanPeriod) -> u64 {
        (ban.until.0 - ban.from.0) / 60_000
    }

    #[test]
    fn each_further_ban_is_twice_as_long_up_to_a_day() {
        let mut ban = BanPeriod::following(None, START);
        let mut lengths = vec![minutes(ban)];
        for _ in 0..10 {
            ban = BanPeriod::following(Some(ban), ban.until.plus(Duration::from_mins(1)));
            lengths.push(minutes(ban));
        }
        assert_eq!(lengths, [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_440, 1_440]);
    }

    #[test]
    fn the_length_is_forgotten_a_day_after_the_last_ban_ended() {
        let last = BanPeriod { from: START, until: START.plus(Duration::from_mins(40)) };
        let end = last.until.plus(Duration::from_hours(24));
        assert_eq!(minutes(BanPeriod::following(Some(last), end.minus(Duration::from_millis(1)))), 80);
        assert_eq!(minutes(BanPeriod::following(Some(last), end)), 5);
    }
}
