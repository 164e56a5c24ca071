//! Bounds of the time and number for which data of accounts that is no longer in use is kept.

use std::time::Duration;

/// Bans, after their end: the next one is twice as long.
pub const BANS: Duration = Duration::from_hours(24);
/// Liftings of bans: longer than any ban that they lifted can matter.
pub const LIFTINGS: Duration = Duration::from_hours(24 * 370);
/// Refused requests.
pub const REFUSALS: Duration = Duration::from_hours(24);
/// Maximum number of refused requests of one account and cause: the newest ones. So an account that is
/// refused all the time takes no space from others, and its other causes stay.
pub const REFUSALS_OF_ACCOUNT: u64 = 1_000;
/// Maximum number of refused requests without a known key, for each cause.
pub const REFUSALS_OF_UNKNOWN: u64 = 5_000;
/// Maximum number of all refused requests, about 40 MiB. The accounts and causes with most of them are
/// trimmed first.
pub const REFUSALS_IN_ALL: u64 = 200_000;
/// Number of minutes for which usage is counted by key, and refusals by cause.
pub const USAGE_MINUTES: i64 = 24 * 60;
/// Number of days for which usage is counted by account, including today.
pub const USAGE_DAYS: i64 = 90;
/// Numbers of a gateway's reports, after the last one.
pub const REPORTS: Duration = Duration::from_hours(7 * 24);
