//! Properties of every sequence of requests.

use std::collections::HashMap;

use petstore_clock::UnixMillis;
use proptest::{collection::vec, prelude::*};

use super::{Record, take};
use crate::{Decision, Outcome, Quota, WindowView};

const START: u64 = 1_795_200_000_000;

/// Returns pauses before requests, in milliseconds: mostly bursts, sometimes a minute, rarely days.
fn pauses() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![12 => 0..200u64, 4 => 0..70_000u64, 1 => 0..200_000_000u64], 1..300)
}

fn quotas() -> impl Strategy<Value = Quota> {
    (1..30u64, 1..120u64).prop_map(|(per_minute, per_day)| Quota { per_minute, per_day })
}

fn play(pauses: &[u64], quota: Quota) -> Vec<Decision> {
    let (mut record, mut now) = (Record::default(), START);
    let send = |pause: &u64| {
        now += pause;
        let (decision, next) = take(record, quota, UnixMillis(0), UnixMillis(now));
        record = next;
        decision
    };
    pauses.iter().map(send).collect()
}

proptest! {
    #[test]
    fn never_more_than_the_limit_is_admitted_in_a_window(pauses in pauses(), quota in quotas()) {
        let decisions = play(&pauses, quota);
        let admitted: Vec<_> = decisions.iter().filter(|one| one.outcome == Outcome::Admitted).collect();
        let (mut minutes, mut days) = (HashMap::<_, u64>::new(), HashMap::<_, u64>::new());
        for decision in admitted {
            prop_assert!(decision.now < decision.minute.resets_at);
            prop_assert!(decision.minute.resets_at.0 - decision.now.0 <= crate::MINUTE);
            *minutes.entry(decision.minute.resets_at).or_default() += 1;
            *days.entry(decision.now.0 / crate::DAY).or_default() += 1;
        }
        prop_assert!(minutes.values().all(|count| *count <= quota.per_minute));
        prop_assert!(days.values().all(|count| *count <= quota.per_day));
    }

    #[test]
    fn a_request_is_refused_only_when_a_window_is_used_up(pauses in pauses(), quota in quotas()) {
        let (mut in_minute, mut in_day) = (HashMap::<_, u64>::new(), HashMap::<_, u64>::new());
        for decision in play(&pauses, quota) {
            let minute = in_minute.entry(decision.minute.resets_at).or_default();
            let day = in_day.entry(decision.now.0 / crate::DAY).or_default();
            match decision.outcome {
                Outcome::Admitted => (*minute, *day) = (*minute + 1, *day + 1),
                Outcome::RateLimited => prop_assert_eq!(*minute, quota.per_minute),
                Outcome::QuotaExceeded => prop_assert_eq!(*day, quota.per_day),
            }
        }
    }

    #[test]
    fn remaining_never_rises_inside_a_window(pauses in pauses(), quota in quotas()) {
        fn rises(before: WindowView, after: WindowView) -> bool {
            before.resets_at == after.resets_at && after.remaining > before.remaining
        }
        // A minute that has not been opened moves with now, so it has no predecessor.
        for pair in play(&pauses, quota).windows(2) {
            prop_assert!(!rises(pair[0].minute, pair[1].minute), "{pair:?}");
            prop_assert!(!rises(pair[0].day, pair[1].day), "{pair:?}");
        }
    }

    #[test]
    fn a_request_after_retry_after_is_admitted(pauses in pauses(), quota in quotas()) {
        let (mut record, mut now) = (Record::default(), START);
        for pause in pauses {
            now += pause;
            let (decision, next) = take(record, quota, UnixMillis(0), UnixMillis(now));
            record = next;
            if let Some(wait) = decision.retry_after_secs() {
                prop_assert!(wait >= 1);
                let (retry, _) = take(record, quota, UnixMillis(0), UnixMillis(now + wait * 1_000));
                prop_assert_eq!(retry.outcome, Outcome::Admitted);
            }
        }
    }

    #[test]
    fn the_shown_remaining_never_exceeds_the_limit(pauses in pauses(), quota in quotas()) {
        for decision in play(&pauses, quota) {
            let shown = decision.shown();
            prop_assert!(shown.remaining <= shown.limit && shown.resets_at > decision.now);
            prop_assert_eq!(shown.remaining == 0 && decision.outcome != Outcome::Admitted,
                decision.retry_after_secs().is_some());
        }
    }

    #[test]
    fn no_record_and_no_time_makes_the_policy_panic(
        moments in prop::array::uniform7(any::<u64>()), counts in prop::array::uniform3(0..1u64 << 53),
        now: u64, per_minute: u64, per_day: u64,
    ) {
        let mut record = Record::default();
        [record.windows.minute.from, record.windows.day.from] = [moments[0], moments[1]];
        [record.windows.minute.used, record.windows.day.used, record.abuse.strikes] = counts;
        [record.abuse.refused.from, record.abuse.refused.until] = [moments[2], moments[3]];
        [record.abuse.striking.from, record.abuse.striking.until] = [moments[4], moments[5]];
        let settled_at = UnixMillis(moments[6]);
        let (decision, _) = take(record, Quota { per_minute, per_day }, settled_at, UnixMillis(now));
        let message = decision.refusal_message("requests");
        let mut fields = Vec::new();
        decision.write_rate_limit(&mut fields);
        decision.write_rate_limit_policy(&mut fields);
        let _ = (fields, message);
    }
}
