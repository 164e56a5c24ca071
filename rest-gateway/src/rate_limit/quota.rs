//! The quotas that no plan has.

use std::num::NonZeroU16;

pub use petstore_plans::Quota;

/// What a client address may ask for without a valid key: 600 a minute, 100,000 a day.
pub(crate) const ADDRESS_QUOTA: Quota = Quota { per_minute: 600, per_day: 100_000 };

/// How often an account may ask about its own usage: 60 times a minute, which never comes to the day's
/// number.
pub(crate) const USAGE_QUOTA: Quota = Quota { per_minute: 60, per_day: 100_000 };

/// What each of so many gateways may admit by itself: its part, rounded down, and at least 1.
pub(super) fn share(quota: Quota, gateways: NonZeroU16) -> Quota {
    let part = |limit: u64| (limit / u64::from(gateways.get())).max(1);
    Quota { per_minute: part(quota.per_minute), per_day: part(quota.per_day) }
}
