//! The second order of the steps: reads that call the core while the limiter decides on them
//! (docs/contract.md, 4.5; docs/decisions/0012-reads-ask-core-and-limiter-at-once.md).

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::response::Response;
use foldhash::HashMap;
use parking_lot::Mutex;
use petstore_rate_limit::{Decision, Outcome};
use tokio::{select, task::yield_now};

use crate::error::ApiError;

/// Maximum number of accounts that are kept. With one more, all are dropped, and their next read waits for
/// the limiter.
const MAX_ACCOUNTS: usize = 50_000;

impl EarlyRead {
    /// Calls the core while the limiter decides, and drops the call if the limiter refuses.
    pub(crate) async fn route<L>(
        self,
        is_alone: bool,
        admission: impl Future<Output = (Result<L, ApiError>, Option<Decision>)>,
        route: impl Future<Output = Result<Response, ApiError>>,
    ) -> (Option<Decision>, Result<Response, ApiError>) {
        let mut route = pin!(route);
        let mut admission = pin!(async {
            if is_alone {
                // Lets the call leave first: the core takes longer than Redis, which may run before it if
                // both are woken on one processor. Among other requests the order makes no difference, and
                // turns cost time.
                yield_now().await;
                yield_now().await;
            }
            let admission = admission.await;
            drop(self);
            admission
        });
        let ((verdict, decision), response) = select! {
            biased;
            admission = &mut admission => (admission, None),
            response = &mut route => (admission.await, Some(response)),
        };
        let response = match (verdict, response) {
            (Err(refusal), _) => Err(refusal),
            (Ok(_), Some(response)) => response,
            (Ok(_), None) => route.await,
        };
        (decision, response)
    }
}

/// Early reads of every account.
#[derive(Debug, Default)]
pub(crate) struct AccountReads(Mutex<HashMap<i64, Arc<EarlyReads>>>);

impl AccountReads {
    /// Returns the early reads of an account.
    pub(crate) fn of(&self, account_id: i64) -> Arc<EarlyReads> {
        let mut by_account = self.0.lock();
        if by_account.len() >= MAX_ACCOUNTS && !by_account.contains_key(&account_id) {
            by_account.clear();
        }
        Arc::clone(by_account.entry(account_id).or_default())
    }
}

/// The early reads of an account: no more than it was last seen to have requests left.
#[derive(Debug, Default)]
pub(crate) struct EarlyReads {
    /// Requests that the account had left after its last decision, up to 128: an account never has more reads
    /// in flight, and while more are left, no request changes this.
    left: AtomicU64,
    /// Early reads that the limiter has not decided on.
    undecided: AtomicU64,
}

/// An early read, until the limiter has decided on it.
pub(crate) struct EarlyRead(Arc<EarlyReads>);

impl EarlyReads {
    /// Begins an early read. Returns `None` if the read has to wait for the limiter.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<EarlyRead> {
        let left = self.left.load(Ordering::Relaxed);
        let begun = |undecided: u64| (undecided < left).then_some(undecided + 1);
        let begun = self.undecided.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begun);
        begun.is_ok().then(|| EarlyRead(Arc::clone(self)))
    }

    /// Records the quota that a decision left to the account. `None` is a refusal of another cause, such as a
    /// ban.
    pub(crate) fn note_decision(&self, decision: Option<&Decision>) {
        let left = match decision {
            Some(Decision { outcome: Outcome::Admitted, minute, day, .. }) => {
                minute.remaining.min(day.remaining).min(128)
            }
            _ => 0,
        };
        // Reads first: most requests of a large account need no write, which would invalidate the caches of
        // other threads.
        if left != self.left.load(Ordering::Relaxed) {
            self.left.store(left, Ordering::Relaxed);
        }
    }
}

impl Drop for EarlyRead {
    fn drop(&mut self) {
        self.0.undecided.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;
    use petstore_rate_limit::{Scope, WindowView};

    use super::*;

    fn decide(reads: &EarlyReads, outcome: Outcome, minute: u64, day: u64) {
        let window = |remaining| WindowView { limit: 60, remaining, resets_at: UnixMillis(0) };
        let (minute, day, now, scope) = (window(minute), window(day), UnixMillis(0), Scope::Shared);
        let (is_strike, struck_out_at, ban) = (false, None, None);
        let decision = Decision { outcome, is_strike, struck_out_at, now, minute, day, ban, scope };
        reads.note_decision(Some(&decision));
    }

    #[test]
    fn the_last_decision_bounds_the_number_of_early_reads() {
        let reads = Arc::<EarlyReads>::default();
        let begun = || std::iter::from_fn(|| reads.begin()).collect::<Vec<_>>().len();
        assert_eq!(begun(), 0, "nothing is known yet");
        for (outcome, minute, day, left) in [
            (Outcome::Admitted, 1, 9, 1),
            (Outcome::Admitted, 0, 9, 0),
            (Outcome::Admitted, 7, 5, 5),
            (Outcome::RateLimited, 7, 5, 0),
            (Outcome::Admitted, 1_000, 5_000, 128),
        ] {
            decide(&reads, outcome, minute, day);
            assert_eq!(begun(), usize::try_from(left).unwrap(), "{outcome:?} {minute} {day}");
        }
    }

    #[test]
    fn a_read_is_early_until_it_is_decided() {
        let reads = Arc::<EarlyReads>::default();
        decide(&reads, Outcome::Admitted, 2, 2);
        let first = reads.begin().unwrap();
        let _second = reads.begin().unwrap();
        assert!(reads.begin().is_none());
        drop(first);
        assert!(reads.begin().is_some());
        reads.note_decision(None);
        assert!(reads.begin().is_none());
    }

    #[test]
    fn the_reads_of_an_account_are_kept_until_there_are_too_many_accounts() {
        let accounts = AccountReads::default();
        let first = accounts.of(0);
        (1..50_000).for_each(|account| drop(accounts.of(account)));
        assert!(Arc::ptr_eq(&first, &accounts.of(0)) && !Arc::ptr_eq(&first, &accounts.of(1)));
        accounts.of(50_000);
        assert!(!Arc::ptr_eq(&first, &accounts.of(0)));
    }
}
