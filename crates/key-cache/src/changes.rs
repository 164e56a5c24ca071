//! The core's change feed, by which cached keys are confirmed or become stale.

use std::{collections::HashMap, time::Duration};

use parking_lot::RwLock;
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::ListChangesResponse;

/// Version of an answer of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Account of the answer.
    pub(super) account_id: i64,
    /// The core's revision of the answer.
    pub(super) revision: i64,
    /// The core's history that the revision belongs to; see [`Changes::history`].
    pub(super) history: u64,
    /// Time at which the core was asked: its answer was valid then or later.
    pub(super) asked_at: UnixMillis,
}

/// Changes that the core has reported.
#[derive(Debug, Default)]
pub(super) struct Changes(RwLock<KnownChanges>);

#[derive(Debug, Default)]
struct KnownChanges {
    /// Last reported revision.
    revision: i64,
    /// Time at which the last successful request was sent.
    confirmed_at: UnixMillis,
    /// Revision of the last change, by account.
    changed: HashMap<i64, i64>,
    /// Revision below which no answer is valid, whatever its account.
    floor: i64,
    history: u64,
}

impl KnownChanges {
    fn is_current(&self, stamp: Stamp) -> bool {
        let last_change = self.changed.get(&stamp.account_id).copied().unwrap_or_default().max(self.floor);
        stamp.history == self.history && stamp.revision >= last_change
    }
}

impl Changes {
    /// Returns the revision after which to ask the core for changes.
    pub(super) fn revision(&self) -> i64 {
        self.0.read().revision
    }

    /// Returns a number that changes when the core's revisions run backwards: its database was restored to an
    /// older state, and everything learnt before is invalid.
    pub(super) fn history(&self) -> u64 {
        self.0.read().history
    }

    /// Applies the changes after `after`, for which the core was asked at `asked_at`.
    pub(super) fn learn(&self, answer: &ListChangesResponse, after: i64, asked_at: UnixMillis) {
        let mut known = self.0.write();
        if answer.revision < after {
            *known = KnownChanges { history: known.history + 1, ..KnownChanges::default() };
        }
        for change in &answer.changes {
            let revision = known.changed.entry(change.account_id).or_default();
            *revision = change.revision.max(*revision);
        }
        if answer.truncated || known.changed.len() > 10_000 {
            known.floor = answer.revision;
            known.changed.clear();
        }
        known.revision = answer.revision;
        known.confirmed_at = asked_at;
    }

    /// Applies a change that another answer of the core, with this stamp, contained before the feed did:
    /// older answers about its account become stale.
    pub(super) fn learn_early(&self, answer: Stamp) {
        let mut known = self.0.write();
        if answer.history == known.history {
            let revision = known.changed.entry(answer.account_id).or_default();
            *revision = answer.revision.max(*revision);
        }
    }

    /// Returns `true` if an answer is still valid: its account has not changed since, and that was confirmed
    /// recently.
    pub(super) fn confirm(&self, stamp: Stamp, now: UnixMillis) -> bool {
        let known = self.0.read();
        let confirmed_at = known.confirmed_at.max(stamp.asked_at);
        // One further ahead than a second was made before the clock was set back.
        let is_past = confirmed_at <= now.plus(Duration::from_secs(1));
        known.is_current(stamp) && is_past && now < confirmed_at.plus(Duration::from_secs(30))
    }

    /// Returns `true` if a new answer is valid: it is not older than any reported change of its account. It
    /// needs no other confirmation, even after a jump of the clock.
    pub(super) fn admit(&self, stamp: Stamp) -> bool {
        self.0.read().is_current(stamp)
    }
}

#[cfg(test)]
mod tests {
    use petstore_proto::internal::v1::AccountChange;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_200_000_000);

    fn answer(revision: i64, changes: &[(i64, i64)]) -> ListChangesResponse {
        let changes = changes.iter().map(|&(account_id, revision)| AccountChange { account_id, revision });
        ListChangesResponse { revision, changes: changes.collect(), ..ListChangesResponse::default() }
    }

    fn stamp(account_id: i64, revision: i64) -> Stamp {
        Stamp { account_id, revision, history: 0, asked_at: NOW }
    }

    #[test]
    fn an_answer_older_than_its_accounts_last_change_does_not_hold() {
        let changes = Changes::default();
        changes.learn(&answer(7, &[(1, 5)]), 0, NOW);
        assert!(!changes.confirm(stamp(1, 4), NOW));
        assert!(changes.confirm(stamp(1, 5), NOW));
        assert!(changes.confirm(stamp(2, 1), NOW));
    }

    #[test]
    fn a_change_known_before_the_feed_outdates_older_answers_of_its_account() {
        let changes = Changes::default();
        changes.learn(&answer(7, &[]), 0, NOW);
        changes.learn_early(stamp(1, 9));
        assert!(!changes.confirm(stamp(1, 8), NOW) && changes.confirm(stamp(1, 9), NOW));
        assert!(changes.confirm(stamp(2, 7), NOW));
        assert_eq!(changes.revision(), 7, "the feed goes on where it was");
        changes.learn_early(Stamp { history: 1, ..stamp(2, 9) });
        assert!(changes.confirm(stamp(2, 7), NOW), "it accepted another history");
    }

    #[test]
    fn after_a_truncated_answer_nothing_older_holds() {
        let changes = Changes::default();
        changes.learn(&ListChangesResponse { truncated: true, ..answer(7, &[(1, 5)]) }, 0, NOW);
        assert!(!changes.confirm(stamp(2, 6), NOW));
        assert!(changes.confirm(stamp(2, 7), NOW));
    }

    #[test]
    fn after_ten_thousand_changed_accounts_nothing_older_holds_and_memory_is_given_back() {
        let changes = Changes::default();
        let many: Vec<_> = (1..=10_001).map(|account| (account, account)).collect();
        changes.learn(&answer(10_000, &many[..10_000]), 0, NOW);
        assert!(changes.confirm(stamp(77_777, 1), NOW));
        changes.learn(&answer(10_001, &many[10_000..]), 10_000, NOW);
        assert!(!changes.confirm(stamp(77_777, 10_000), NOW));
        assert!(changes.0.read().changed.is_empty());
    }

    #[test]
    fn an_answer_holds_for_thirty_seconds_after_its_last_confirmation() {
        let changes = Changes::default();
        let after = |secs| NOW.plus(Duration::from_secs(secs));
        let just_before = |moment: UnixMillis| moment.minus(Duration::from_millis(1));
        assert!(changes.confirm(stamp(1, 1), just_before(after(30))));
        assert!(!changes.confirm(stamp(1, 1), after(30)));
        changes.learn(&answer(1, &[]), 1, after(40));
        assert!(changes.confirm(stamp(1, 1), just_before(after(70))));
        assert!(!changes.confirm(stamp(1, 1), after(70)));
    }

    #[test]
    fn a_confirmation_from_the_future_is_ignored() {
        let changes = Changes::default();
        changes.learn(&answer(1, &[]), 0, NOW);
        assert!(changes.confirm(stamp(1, 1), NOW.minus(Duration::from_secs(1))));
        assert!(!changes.confirm(stamp(1, 1), NOW.minus(Duration::from_secs(2))));
        assert!(
            changes.admit(stamp(1, 1)),
            "one that has just come is good, though it will not be remembered for long"
        );
    }

    #[test]
    fn a_revision_that_runs_backwards_invalidates_everything() {
        let changes = Changes::default();
        changes.learn(&answer(100, &[(1, 100)]), 0, NOW);
        changes.learn(&answer(3, &[]), 100, NOW);
        assert!(!changes.confirm(stamp(1, 100), NOW));
        assert_eq!((changes.revision(), changes.history()), (3, 1));
        assert!(changes.confirm(Stamp { history: 1, ..stamp(1, 3) }, NOW));
    }
}
