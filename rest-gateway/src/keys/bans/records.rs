//! What is known of bans, and what follows from it: pure.

use std::{collections::HashMap, sync::Arc, time::Duration};

use petstore_clock::UnixMillis;

use crate::{
    keys::changes::Stamp,
    rate_limit::{BanCause, BanPeriod, Decision},
};

/// A ban matters for so long after its end.
const MEMORY: Duration = Duration::from_hours(24);

/// Forgetting what is over looks at every record, so it waits until there are so many, or twice as many as it
/// left.
pub(super) const FIRST_SWEEP: usize = 64;

#[derive(Debug, Default)]
pub(super) struct KnownBans {
    pub(super) by_key: HashMap<Arc<str>, KnownBan>,
    sweep_at: usize,
}

/// What is known of a key's bans.
#[derive(Clone, Debug)]
pub(super) struct KnownBan {
    pub(super) account_id: i64,
    pub(super) last: LastBan,
    pub(super) source: Source,
    forget_at: UnixMillis,
}

/// A key's last ban, or since when none holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::keys) enum LastBan {
    Banned(BanPeriod, BanCause),
    /// Every ban imposed until this moment is lifted.
    Lifted(UnixMillis),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Seen in the limiter, and not known to be in the core yet.
    Unreported,
    /// Seen in the limiter, and the core refused the report.
    Refused,
    /// As the core told; what it told before does not count any more.
    Core { history: u64, revision: i64 },
}

/// What the limiter is to be told: the ban, or none, in the place of whatever was imposed until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correction {
    pub(super) ban: Option<BanPeriod>,
    pub(super) upto: UnixMillis,
}

/// What a limiter's decision comes to, given what is known of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stands; if it is a ban, for this cause.
    Right(BanCause),
    /// It rests on a ban that is lifted or replaced, or on the lack of one that is in force.
    Wrong { correction: Correction, cause: BanCause },
    /// It rests on a ban that the core has to be told of.
    New(BanPeriod),
}

/// A ban that the core is to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::keys) struct BanReport {
    pub(in crate::keys) key_id: Arc<str>,
    pub(in crate::keys) account_id: i64,
    pub(in crate::keys) ban: BanPeriod,
}

impl KnownBans {
    /// Holds a decision against what is known of the key.
    pub(super) fn judge(&self, key_id: &Arc<str>, decision: &Decision) -> Verdict {
        let Some(known) = self.by_key.get(key_id).map(|record| &record.last) else {
            return decision.ban.map_or(Verdict::Right(BanCause::Unknown), Verdict::New);
        };
        let cause = known.cause_at(decision.now);
        let is_wrong = || Verdict::Wrong { correction: known.correction(), cause: cause.clone() };
        match decision.ban {
            // It was lost, or could not be set yet.
            None if known.is_in_force(decision.now) => is_wrong(),
            None => Verdict::Right(cause),
            Some(ban) if known.is(ban) => Verdict::Right(cause),
            // The limiter has not heard what came after it, or brought it back.
            Some(ban) if ban.from <= known.moment() => is_wrong(),
            Some(ban) => Verdict::New(ban),
        }
    }

    pub(super) fn set_from_core(
        &mut self,
        key_id: &Arc<str>,
        from_core: Option<LastBan>,
        stamp: Stamp,
        now: UnixMillis,
    ) -> Option<Correction> {
        let known = self.by_key.get(key_id);
        let last = match (known, from_core) {
            (Some(known), _) if known.source.is_newer_than(stamp) => return None,
            // What the core does not know yet is not for it to judge.
            (Some(known), from_core)
                if matches!(known.source, Source::Unreported | Source::Refused)
                    && from_core
                        .as_ref()
                        .is_none_or(|from_core| from_core.moment() < known.last.moment()) =>
            {
                return None;
            }
            (None, None) => return None,
            // It is not known any more: the database was put back to an older state, or it is long over.
            (Some(known), None) => LastBan::Lifted(known.last.moment()),
            (_, Some(from_core)) => from_core,
        };
        let before = known.map(|known| known.last.clone());
        self.put(key_id, KnownBan::new(stamp.account_id, last.clone(), Source::from_stamp(stamp)), now);
        match before {
            Some(before) if before.is_alike(&last) => None, // the limiter was told
            Some(before) => Some(last.correction_after(before.moment())),
            None => Some(last.correction()),
        }
    }

    pub(super) fn report_accepted(
        &mut self,
        report: &BanReport,
        from_core: Option<LastBan>,
        stamp: Stamp,
        now: UnixMillis,
    ) -> Option<Correction> {
        let known = self.by_key.get(&report.key_id)?;
        if !known.last.is(report.ban) {
            return None; // another one has been imposed or told meanwhile
        }
        let last = from_core.unwrap_or(LastBan::Lifted(report.ban.from));
        let correction = (!last.is(report.ban)).then(|| last.correction_after(report.ban.from));
        self.put(&report.key_id, KnownBan::new(stamp.account_id, last, Source::from_stamp(stamp)), now);
        correction
    }

    pub(super) fn put(&mut self, key_id: &Arc<str>, record: KnownBan, now: UnixMillis) {
        if self.by_key.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_key.retain(|_, record| now < record.forget_at);
            self.sweep_at = self.by_key.len().saturating_mul(2);
        }
        self.by_key.insert(Arc::clone(key_id), record);
    }
}

impl KnownBan {
    pub(super) fn new(account_id: i64, last: LastBan, source: Source) -> Self {
        let end = match last {
            LastBan::Banned(ban, _) => ban.until,
            LastBan::Lifted(at) => at,
        };
        Self { account_id, last, source, forget_at: end.plus(MEMORY) }
    }
}

impl LastBan {
    /// Up to when bans are accounted for.
    pub(super) fn moment(&self) -> UnixMillis {
        match self {
            Self::Banned(ban, _) => ban.from,
            Self::Lifted(at) => *at,
        }
    }

    fn is_in_force(&self, now: UnixMillis) -> bool {
        matches!(self, Self::Banned(ban, _) if now < ban.until)
    }

    /// Whether this is that ban. A limiter whose clock is behind began it later, so its end tells.
    pub(super) fn is(&self, ban: BanPeriod) -> bool {
        matches!(self, Self::Banned(known, _) if known.until == ban.until)
    }

    /// Whether the limiter does the same for both.
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Banned(one, _), Self::Banned(other, _)) => one == other,
            (Self::Lifted(one), Self::Lifted(other)) => one == other,
            (Self::Banned(..), Self::Lifted(_)) | (Self::Lifted(_), Self::Banned(..)) => false,
        }
    }

    fn cause_at(&self, now: UnixMillis) -> BanCause {
        match self {
            Self::Banned(_, cause) if self.is_in_force(now) => cause.clone(),
            Self::Banned(..) | Self::Lifted(_) => BanCause::Unknown,
        }
    }

    pub(super) fn correction(&self) -> Correction {
        let ban = match self {
            Self::Banned(ban, _) => Some(*ban),
            Self::Lifted(_) => None,
        };
        Correction { ban, upto: self.moment() }
    }

    /// The same where a ban of that moment is known to be settled too.
    fn correction_after(&self, moment: UnixMillis) -> Correction {
        let correction = self.correction();
        Correction { upto: correction.upto.max(moment), ..correction }
    }
}

impl Source {
    fn from_stamp(stamp: Stamp) -> Self {
        Self::Core { history: stamp.history, revision: stamp.revision }
    }

    /// Whether the core told it after that answer.
    fn is_newer_than(self, answer: Stamp) -> bool {
        match self {
            Self::Unreported | Self::Refused => false,
            Self::Core { history, revision } => history == answer.history && revision > answer.revision,
        }
    }
}
