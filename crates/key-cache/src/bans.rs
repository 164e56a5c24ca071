//! Bans of keys. A ban is a state of its key, like its revocation: the core stores
//! it, and returns it with the key. A gateway that counts too many strikes bans the key at once and reports
//! the ban, so that the core passes it to the other gateways.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use petstore_caller::plans::{BanCause, BanPeriod};
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1 as internal;
use tokio::sync::Notify;

use super::KnownKey;

/// The last ban of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastBan {
    /// A ban that is in force or over.
    Banned(BanPeriod, BanCause),
    /// Every ban imposed until this time is lifted.
    Lifted(UnixMillis),
}

impl LastBan {
    /// Converts the core's message about a key's bans.
    pub(super) fn from_core(ban: Option<internal::Ban>, lifted_at_ms: Option<i64>) -> Option<Self> {
        let moment = |millis: i64| u64::try_from(millis).ok().map(UnixMillis);
        let Some(ban) = ban else { return lifted_at_ms.and_then(moment).map(Self::Lifted) };
        let cause = match ban.origin() {
            internal::BanOrigin::Unspecified | internal::BanOrigin::Limiter => BanCause::IgnoredRefusals,
            internal::BanOrigin::Operator => {
                BanCause::Operator(Some(ban.reason).filter(|reason| !reason.is_empty()).map(Into::into))
            }
        };
        let period = BanPeriod { from: moment(ban.imposed_at_ms)?, until: moment(ban.ends_at_ms)? };
        (period.from < period.until).then_some(Self::Banned(period, cause))
    }

    /// Returns the ban and its cause if it is in force.
    pub fn in_force(&self, now: UnixMillis) -> Option<(BanPeriod, &BanCause)> {
        match self {
            Self::Banned(period, cause) if now < period.until => Some((*period, cause)),
            Self::Banned(..) | Self::Lifted(_) => None,
        }
    }

    /// Returns the time before which the key's refusals are settled: they no longer make a request a strike.
    pub const fn settled_at(&self) -> UnixMillis {
        match self {
            Self::Banned(period, _) => period.until,
            Self::Lifted(at) => UnixMillis(at.0.saturating_add(1)),
        }
    }

    /// Returns `true` if a ban that a gateway imposed replaces this one, by the rule of the core:
    /// `BanNote::gives_way_to`.
    fn gives_way_to(&self, imposed: BanPeriod) -> bool {
        match self {
            Self::Banned(kept, _) => imposed.from >= kept.from && imposed.until > kept.until,
            Self::Lifted(at) => imposed.from > *at,
        }
    }
}

/// A ban that this gateway imposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImposedBan {
    pub(super) key_id: Arc<str>,
    pub(super) account_id: i64,
    pub(super) period: BanPeriod,
    /// `true` if the core accepted or refused the report, which is not repeated.
    is_answered: bool,
}

impl ImposedBan {
    /// Returns the ban as a message to the core.
    pub(super) fn to_core(&self) -> internal::ReportBanRequest {
        let BanPeriod { from, until } = self.period;
        let ban = internal::Ban {
            imposed_at_ms: from.as_i64(),
            ends_at_ms: until.as_i64(),
            ..internal::Ban::default()
        };
        internal::ReportBanRequest { key_id: self.key_id.to_string(), ban: Some(ban) }
    }
}

/// Bans that this gateway imposed, by key. They are kept after the core knows them, because a request may
/// still have the key as it was before.
#[derive(Debug, Default)]
pub(super) struct ImposedBans {
    by_key: RwLock<HashMap<Arc<str>, ImposedBan>>,
    pub(super) added: Notify,
}

impl ImposedBans {
    /// Returns the key's last ban, as the core and this gateway know it.
    pub(super) fn last_ban(&self, key: &KnownKey) -> Option<LastBan> {
        last_ban(&self.by_key.read(), key)
    }

    /// Bans a key that had too many strikes at `from`. Returns `false` if that time is already settled.
    pub(super) fn impose(&self, key: &KnownKey, from: UnixMillis, now: UnixMillis) -> bool {
        let mut by_key = self.by_key.write();
        let last = match last_ban(&by_key, key) {
            Some(LastBan::Lifted(at)) if from <= at => return false,
            Some(LastBan::Banned(last, _)) if from <= last.from => return false,
            Some(LastBan::Banned(last, _)) => Some(last),
            Some(LastBan::Lifted(_)) | None => None,
        };
        // Removes bans that no longer prolong the next one.
        by_key.retain(|_, ban| now < ban.period.until.plus(BanPeriod::MEMORY));
        let (key_id, period) = (Arc::clone(&key.key_id), BanPeriod::following(last, from));
        let ban = ImposedBan {
            key_id: Arc::clone(&key_id),
            account_id: key.account_id,
            period,
            is_answered: false,
        };
        by_key.insert(key_id, ban);
        self.added.notify_one();
        true
    }

    /// Returns the bans to report.
    pub(super) fn unreported(&self) -> Vec<ImposedBan> {
        self.by_key.read().values().filter(|ban| !ban.is_answered).cloned().collect()
    }

    /// Marks a ban whose report the core has accepted or refused, so that it is not reported again.
    pub(super) fn answered(&self, ban: &ImposedBan) {
        if let Some(imposed) = self.by_key.write().get_mut(&ban.key_id).filter(|imposed| *imposed == ban) {
            imposed.is_answered = true;
        }
    }
}

fn last_ban(imposed: &HashMap<Arc<str>, ImposedBan>, key: &KnownKey) -> Option<LastBan> {
    let kept = key.last_ban.as_ref();
    match imposed.get(&key.key_id) {
        Some(ban) if kept.is_none_or(|kept| kept.gives_way_to(ban.period)) => {
            Some(LastBan::Banned(ban.period, BanCause::IgnoredRefusals))
        }
        Some(_) | None => kept.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use petstore_caller::plans::Quota;
    use petstore_proto::internal::v1::Plan;

    use super::*;

    const START: UnixMillis = UnixMillis(1_795_200_000_000);
    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_mins(1);

    fn key(last_ban: Option<LastBan>) -> KnownKey {
        let quota = Quota { per_minute: 60, per_day: 1_000 };
        KnownKey { last_ban, ..KnownKey::new("key".into(), 1, Plan::Free, quota) }
    }

    fn ban(from: UnixMillis, length: Duration) -> BanPeriod {
        BanPeriod { from, until: from.plus(length) }
    }

    fn by_operator(period: BanPeriod) -> LastBan {
        LastBan::Banned(period, BanCause::Operator(Some("a leak".into())))
    }

    fn by_limiter(period: BanPeriod) -> LastBan {
        LastBan::Banned(period, BanCause::IgnoredRefusals)
    }

    #[test]
    fn too_many_strikes_ban_a_key_once_from_the_time_of_the_last() {
        let (bans, key) = (ImposedBans::default(), key(None));
        let first = ban(START, 5 * MINUTE);
        assert!(bans.impose(&key, START, START));
        for late in [START, START.minus(MINUTE)] {
            assert!(!bans.impose(&key, late, START.plus(SECOND)));
        }
        let known = bans.last_ban(&key).unwrap();
        assert_eq!(known, by_limiter(first));
        assert!(known.in_force(first.until.minus(SECOND)).is_some() && known.in_force(first.until).is_none());
        assert_eq!(known.settled_at(), first.until);
        assert_eq!(bans.unreported().len(), 1);
    }

    #[test]
    fn a_ban_is_twice_as_long_as_the_last_one_but_never_shorter_than_a_first_one() {
        let last = ban(START, 20 * MINUTE);
        for (known, length) in [
            (by_operator(last), 40),
            (by_limiter(last), 40),
            (LastBan::Lifted(last.until), 5),
            (by_operator(ban(START, SECOND)), 5),
            (by_operator(ban(START, 2 * MINUTE)), 5),
            (by_operator(ban(START, 3 * MINUTE)), 6),
        ] {
            let (bans, key) = (ImposedBans::default(), key(Some(known)));
            let from = last.until.plus(MINUTE);
            assert!(bans.impose(&key, from, from));
            assert_eq!(bans.last_ban(&key), Some(by_limiter(ban(from, length * MINUTE))));
        }
    }

    #[test]
    fn strikes_before_a_lifting_or_a_ban_bring_no_ban() {
        let later = START.plus(SECOND);
        for known in [LastBan::Lifted(START), LastBan::Lifted(later), by_operator(ban(later, MINUTE))] {
            let (bans, key) = (ImposedBans::default(), key(Some(known.clone())));
            assert!(!bans.impose(&key, START, later), "{known:?}");
            assert_eq!((bans.last_ban(&key), bans.unreported()), (Some(known), vec![]));
        }
    }

    #[test]
    fn a_local_ban_and_the_cores_ban_merge_as_in_the_core() {
        let imposed = ban(START.plus(MINUTE), 5 * MINUTE);
        for (received, holds) in [
            (None, true),
            (Some(by_limiter(ban(START, 2 * MINUTE))), true),
            (Some(LastBan::Lifted(START)), true),
            (Some(by_operator(ban(START, 6 * MINUTE))), false),
            (Some(LastBan::Lifted(imposed.from)), false),
            (Some(by_operator(ban(START, 60 * MINUTE))), false),
            (Some(by_operator(ban(imposed.from.plus(SECOND), MINUTE))), false),
        ] {
            let bans = ImposedBans::default();
            assert!(bans.impose(&key(None), imposed.from, imposed.from));
            let expected = if holds { Some(by_limiter(imposed)) } else { received.clone() };
            assert_eq!(bans.last_ban(&key(received)), expected);
        }
    }

    #[test]
    fn a_ban_is_reported_until_the_core_accepts_or_refuses_it() {
        let (bans, key) = (ImposedBans::default(), key(None));
        bans.impose(&key, START, START);
        let [report] = &bans.unreported()[..] else { panic!("one ban is to be reported") };
        let sent = report.to_core().ban.map(|ban| (ban.imposed_at_ms, ban.ends_at_ms));
        assert_eq!(sent, Some((START.as_i64(), START.plus(5 * MINUTE).as_i64())));
        bans.answered(report);
        assert_eq!((bans.unreported(), bans.last_ban(&key).is_some()), (vec![], true), "it holds");

        let next = START.plus(10 * MINUTE);
        bans.impose(&key, next, next);
        bans.answered(report);
        let [newer] = &bans.unreported()[..] else { panic!("the newer ban is to be reported") };
        bans.answered(newer);
        let known = by_limiter(newer.period);
        assert_eq!(
            (bans.unreported(), bans.last_ban(&key)),
            (vec![], Some(known)),
            "this key is from before"
        );
    }

    #[test]
    fn a_ban_is_forgotten_when_it_makes_no_other_longer() {
        let bans = ImposedBans::default();
        for hour in 0..1_000 {
            let (from, key_id) = (START.plus(Duration::from_hours(hour)), hour.to_string());
            let key = KnownKey { key_id: key_id.into(), ..key(None) };
            bans.impose(&key, from, from);
            bans.unreported().iter().for_each(|ban| bans.answered(ban));
        }
        assert_eq!(bans.by_key.read().len(), 25, "the bans that ended in the last day, and the newest");
    }

    #[test]
    fn an_invalid_ban_is_ignored() {
        let received = |imposed_at_ms, ends_at_ms| {
            let ban = internal::Ban { imposed_at_ms, ends_at_ms, ..internal::Ban::default() };
            LastBan::from_core(Some(ban), None)
        };
        assert_eq!([received(-1, 5), received(5, 5), received(5, -1)], [None, None, None]);
        let period = BanPeriod { from: UnixMillis(5), until: UnixMillis(6) };
        assert_eq!(received(5, 6), Some(by_limiter(period)));
        for (reason, kept) in [("", None), ("a leak", Some("a leak".into()))] {
            let (origin, reason) = (internal::BanOrigin::Operator.into(), reason.to_owned());
            let ban = internal::Ban { imposed_at_ms: 5, ends_at_ms: 6, origin, reason };
            let expected = LastBan::Banned(period, BanCause::Operator(kept));
            assert_eq!(LastBan::from_core(Some(ban), None), Some(expected));
        }
        assert_eq!(LastBan::from_core(None, Some(7)), Some(LastBan::Lifted(UnixMillis(7))));
    }
}
