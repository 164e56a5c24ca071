//! How much may be asked for.

use std::num::NonZeroU16;

/// How many requests an account, or a client address, may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Requests per minute; at least 1, below 2⁵³.
    pub per_minute: u64,
    /// Requests per UTC day; at least 1, below 2⁵³.
    pub per_day: u64,
}

impl Quota {
    /// What a client address may ask for without a valid key: 600 a minute, 100,000 a day.
    pub const ADDRESS: Self = Self { per_minute: 600, per_day: 100_000 };

    /// How often an account may ask about its own usage: 60 times a minute, which never comes to the day's
    /// number.
    pub const USAGE: Self = Self { per_minute: 60, per_day: 100_000 };

    /// What each of so many gateways may admit by itself: its part, rounded down, and at least 1.
    pub(super) fn share(self, gateways: NonZeroU16) -> Self {
        let part = |limit: u64| (limit / u64::from(gateways.get())).max(1);
        Self { per_minute: part(self.per_minute), per_day: part(self.per_day) }
    }
}
