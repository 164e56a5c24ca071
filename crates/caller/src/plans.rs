//! Plans with fixed limits (docs/contract.md, 6.1), which the core enforces and the documentation shows, and
//! bans of keys that exceed them (6.8).

use std::{sync::Arc, time::Duration};

use petstore_clock::UnixMillis;

/// Maximum number of requests of an account or of a client address. The limit per day may be the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Requests per minute; at least 1, below 2⁵³.
    pub per_minute: u64,
    /// Requests per UTC day; at least 1, below 2⁵³.
    pub per_day: u64,
}

/// Plan, and the number of requests that it allows to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPlan {
    /// Name, as an account has it.
    pub name: &'static str,
    /// Limits of an account with it.
    pub quota: Quota,
}

/// Default plan of an account.
pub const FREE: FixedPlan = FixedPlan { name: "free", quota: Quota { per_minute: 60, per_day: 1_000 } };
/// Plan above the free one.
pub const PRO: FixedPlan = FixedPlan { name: "pro", quota: Quota { per_minute: 300, per_day: 10_000 } };
/// Largest plan with fixed limits.
pub const BUSINESS: FixedPlan =
    FixedPlan { name: "business", quota: Quota { per_minute: 1_000, per_day: 100_000 } };

/// All of them, the smallest first.
pub const FIXED: [FixedPlan; 3] = [FREE, PRO, BUSINESS];

/// Name of the plan whose limits are agreed with each account.
pub const ENTERPRISE: &str = "enterprise";

/// Period in which every request of a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPeriod {
    /// Time at which it was imposed.
    pub from: UnixMillis,
    /// First time after it; later than `from`.
    pub until: UnixMillis,
}

impl BanPeriod {
    /// Time after the end of a ban in which it makes the next one longer.
    pub const MEMORY: Duration = Duration::from_hours(24);

    /// Returns the ban that begins at `from`: twice the duration of the key's last ban while that is
    /// remembered, but at least five minutes and at most a day.
    pub fn following(last: Option<Self>, from: UnixMillis) -> Self {
        let last = last.filter(|last| from < last.until.plus(Self::MEMORY));
        let twice = last.map_or(Duration::ZERO, |last| last.until.since(last.from).saturating_mul(2));
        let length = twice.clamp(Duration::from_mins(5), Duration::from_hours(24));
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
