//! Reads that are sent to the core while the limiter decides (docs/contract.md, 4.5).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::rate_limit::{Decision, Outcome};

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
#[derive(Debug)]
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

    use super::*;
    use crate::rate_limit::{Scope, WindowView};

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
}
