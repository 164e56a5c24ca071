//! Accounts that were told when to return, and whether they were admitted when they did.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use petstore_clock::UnixMillis;
use petstore_rate_limit::Decision;

/// Maximum number of accounts that are kept. With one more, all are forgotten.
const MAX_ACCOUNTS: usize = 10_000;

/// The times at which refused accounts may return, as `Retry-After` told them last.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    until: Mutex<HashMap<i64, UnixMillis>>,
    /// Number of accounts that are kept. While there are none, an admitted request takes no lock.
    accounts: AtomicUsize,
}

impl Waits {
    /// Records a decision about an account. If it is the first since the account may return, returns whether
    /// the request was admitted.
    pub(crate) fn note(&self, account_id: i64, decision: &Decision) -> Option<bool> {
        let retry_after = decision.retry_after_secs();
        if retry_after.is_none() && self.accounts.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut until = self.until.lock();
        let may_return = until.remove(&account_id).is_some_and(|until| until <= decision.now);
        if let Some(seconds) = retry_after {
            if until.len() >= MAX_ACCOUNTS {
                until.clear();
            }
            let millis = seconds.saturating_mul(1_000);
            until.insert(account_id, UnixMillis(decision.now.0.saturating_add(millis)));
        }
        self.accounts.store(until.len(), Ordering::Relaxed);
        may_return.then_some(retry_after.is_none())
    }
}

#[cfg(test)]
mod tests {
    use petstore_rate_limit::{Outcome, Scope, WindowView};

    use super::*;

    fn decision(now: u64, outcome: Outcome) -> Decision {
        let minute = WindowView { limit: 1, remaining: 0, resets_at: UnixMillis(60_000) };
        let day = WindowView { limit: 9, remaining: 9, resets_at: UnixMillis(86_400_000) };
        let (now, scope) = (UnixMillis(now), Scope::Shared);
        Decision { outcome, is_strike: false, struck_out_at: None, now, minute, day, ban: None, scope }
    }

    #[test]
    fn the_first_request_after_the_wait_is_judged_once() {
        use Outcome::{Admitted, RateLimited};
        let waits = Waits::default();
        for (now, outcome, judged) in [
            (0, Admitted, None),
            (1_000, RateLimited, None),
            (2_000, RateLimited, None),
            (60_000, Admitted, Some(true)),
            (60_001, Admitted, None),
            (60_002, RateLimited, None),
            (61_002, RateLimited, Some(false)),
            (61_003, Admitted, None),
            (99_000, Admitted, None),
        ] {
            assert_eq!(waits.note(1, &decision(now, outcome)), judged, "{now}");
        }
    }

    #[test]
    fn the_number_of_accounts_is_bounded() {
        let waits = Waits::default();
        for account in 0..25_000 {
            waits.note(account, &decision(0, Outcome::RateLimited));
            assert!(waits.until.lock().len() <= MAX_ACCOUNTS);
        }
    }
}
