//! What accounts asked for.

use petstore_clock::Clock;

use crate::{
    domain::{AccountError, AccountId, Day, UsageDay},
    store::Store,
};

/// The account's requests in the last days, today included, ascending; days without requests are left out. What was
/// answered in the last seconds may be missing: gateways report in batches.
///
/// # Errors
///
/// The store's error.
pub async fn of(
    store: &Store,
    clock: &Clock,
    account: AccountId,
    days: u16,
) -> Result<Vec<UsageDay>, AccountError> {
    let since = Day::of(clock.now()).minus(i64::from(days) - 1);
    Ok(store.usage_of(account, since, "").await?.days)
}
