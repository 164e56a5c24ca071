//! Bounds of the time and number for which data that is no longer in use is kept.

use std::time::Duration;

/// Retention of stored data.
#[derive(Debug)]
pub struct Kept {
    /// Bans, after their end: the next one is twice as long.
    pub bans: Duration,
    /// Liftings of bans: longer than any ban that they lifted can matter.
    pub liftings: Duration,
    /// Refused requests.
    pub refusals: Duration,
    /// Maximum number of refused requests of one account and cause: the newest ones. So an account that is
    /// refused all the time takes no space from others, and its other causes stay.
    pub refusals_of_account: u64,
    /// Maximum number of refused requests without a known key, for each cause.
    pub refusals_of_unknown: u64,
    /// Maximum number of all refused requests, about 40 MiB. The accounts and causes with most of them are
    /// trimmed first.
    pub refusals_in_all: u64,
    /// Number of minutes for which usage is counted by key, and refusals by cause.
    pub usage_minutes: i64,
    /// Number of days for which usage is counted by account, including today.
    pub usage_days: i64,
    /// Numbers of a gateway's reports, after the last one.
    pub reports: Duration,
}

/// Retention of the data of accounts.
pub const KEPT: Kept = Kept {
    bans: Duration::from_hours(24),
    liftings: Duration::from_hours(24 * 370),
    refusals: Duration::from_hours(24),
    refusals_of_account: 1_000,
    refusals_of_unknown: 5_000,
    refusals_in_all: 200_000,
    usage_minutes: 24 * 60,
    usage_days: 90,
    reports: Duration::from_hours(7 * 24),
};
