//! Bounds of the time and number for which data that is no longer in use is kept.

use std::time::Duration;

/// Retention of stored data.
pub(crate) struct Kept {
    /// Idempotency keys: the time for which a key identifies the same creation.
    pub(crate) idempotency_keys: Duration,
    /// Bans, after their end: the next one is twice as long.
    pub(crate) bans: Duration,
    /// Liftings of bans: longer than any ban that they lifted can matter.
    pub(crate) liftings: Duration,
    /// Refused requests.
    pub(crate) refusals: Duration,
    /// Maximum number of refused requests of one account and cause: the newest ones. So an account that is
    /// refused all the time takes no space from others, and its other causes stay.
    pub(crate) refusals_of_account: u64,
    /// Maximum number of refused requests without a known key, for each cause.
    pub(crate) refusals_of_unknown: u64,
    /// Maximum number of all refused requests, about 40 MiB. The accounts and causes with most of them are
    /// trimmed first.
    pub(crate) refusals_in_all: u64,
    /// Number of minutes for which usage is counted by key, and refusals by cause.
    pub(crate) usage_minutes: i64,
    /// Number of days for which usage is counted by account, including today.
    pub(crate) usage_days: i64,
    /// Numbers of a gateway's reports, after the last one.
    pub(crate) reports: Duration,
    /// Maximum number of sessions of an operator. Opening one more ends the oldest.
    pub(crate) sessions_of_operator: u64,
}

pub(crate) const KEPT: Kept = Kept {
    idempotency_keys: Duration::from_hours(24),
    bans: Duration::from_hours(24),
    liftings: Duration::from_hours(24 * 370),
    refusals: Duration::from_hours(24),
    refusals_of_account: 1_000,
    refusals_of_unknown: 5_000,
    refusals_in_all: 200_000,
    usage_minutes: 24 * 60,
    usage_days: 90,
    reports: Duration::from_hours(7 * 24),
    sessions_of_operator: 50,
};
