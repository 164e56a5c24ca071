//! Bans. The core's database has the word: what it tells of a key is set in the limiter, wherever that keeps
//! bans, and it is told of those that a limiter imposed. What this gateway knows is held against every
//! decision, so that a limiter that lost a ban, or kept one that was lifted, is put right by the first
//! request.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1 as internal;
use tokio::sync::Notify;

use super::changes::Stamp;
use crate::rate_limit::{Ban, BanCause, Decision, LimitKey, LimiterUnavailable, Outcome, Quota, RateLimiter};

/// A ban matters for so long after its end.
const MEMORY: Duration = Duration::from_hours(24);

/// Forgetting what is over looks at every record, so it waits until there are so many, or twice as many as it
/// left.
const FIRST_SWEEP: usize = 64;

/// Keeps limiter and core alike. What a limiter imposed holds at once, whether the core can be told or not.
#[derive(Debug)]
pub(super) struct Bans {
    limiter: Arc<dyn RateLimiter>,
    records: RwLock<BanRecords>,
    imposed: Notify,
}

#[derive(Debug, Default)]
struct BanRecords {
    by_key: HashMap<Arc<str>, BanRecord>,
    sweep_at: usize,
}

/// What is known of a key's bans.
#[derive(Clone, Debug)]
struct BanRecord {
    account_id: i64,
    last: LastBan,
    source: Source,
    forget_at: UnixMillis,
}

/// A key's last ban, or since when none holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LastBan {
    Banned(Ban, BanCause),
    /// Every ban imposed until this moment is lifted.
    Lifted(UnixMillis),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Seen in the limiter, and not known to be in the core yet.
    Unreported,
    /// Seen in the limiter, and the core refused the report.
    Refused,
    /// As the core told; what it told before does not count any more.
    Core { history: u64, revision: i64 },
}

/// What the limiter is to be told: the ban, or none, in the place of whatever was imposed until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Correction {
    ban: Option<Ban>,
    upto: UnixMillis,
}

/// What a limiter's decision comes to, given what is known of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// It stands; if it is a ban, for this cause.
    Right(BanCause),
    /// It rests on a ban that is lifted or replaced, or on the lack of one that is in force.
    Wrong { correction: Correction, cause: BanCause },
    /// It rests on a ban that the core has to be told of.
    New(Ban),
}

/// A ban that the core is to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) key_id: Arc<str>,
    pub(super) account_id: i64,
    pub(super) ban: Ban,
}

impl Bans {
    pub(super) fn new(limiter: Arc<dyn RateLimiter>) -> Self {
        Self { limiter, records: RwLock::default(), imposed: Notify::new() }
    }

    /// The decision on a request, held against what is known of the key's bans, and why the key is banned if
    /// it is. A limiter that did not know is put right, and asked again.
    pub(super) async fn settle(
        &self,
        limit_key: &LimitKey,
        quota: Quota,
        decision: Decision,
    ) -> Result<(Decision, BanCause), LimiterUnavailable> {
        let LimitKey::ApiKey { account_id, key_id } = limit_key else {
            return Ok((decision, BanCause::Unknown)); // never banned
        };
        let verdict = {
            let records = self.read();
            if records.by_key.is_empty() && decision.ban.is_none() {
                return Ok((decision, BanCause::Unknown));
            }
            records.judge(key_id, &decision)
        };
        match verdict {
            Verdict::Right(cause) => Ok((decision, cause)),
            Verdict::New(ban) => {
                let cause = if decision.is_strike { BanCause::IgnoredRefusals } else { BanCause::Unknown };
                if decision.is_strike {
                    tracing::warn!(account_id, %key_id, until = %ban.until, "banned a key that ignores 429");
                }
                self.record_new(*account_id, key_id, ban, cause.clone(), decision.now);
                Ok((decision, cause))
            }
            Verdict::Wrong { correction, cause } => {
                self.correct(limit_key, correction).await;
                let again = if decision.outcome == Outcome::Admitted {
                    self.limiter.peek(limit_key, quota).await? // it was counted
                } else {
                    self.limiter.take(limit_key, quota).await? // a ban counts nothing
                };
                Ok((again, cause))
            }
        }
    }

    /// Sets in the limiter what the core told of a key, unless this gateway knows better.
    pub(super) async fn set_from_core(
        &self,
        key_id: &Arc<str>,
        from_core: Option<LastBan>,
        stamp: Stamp,
        now: UnixMillis,
    ) {
        let correction = self.write().set_from_core(key_id, from_core, stamp, now);
        self.correct_key(key_id, stamp, correction).await;
    }

    /// The core's answer to a report: it has weighed the reported ban, and what it answers holds.
    pub(super) async fn report_accepted(
        &self,
        report: &Report,
        from_core: Option<LastBan>,
        stamp: Stamp,
        now: UnixMillis,
    ) {
        let correction = self.write().report_accepted(report, from_core, stamp, now);
        self.correct_key(&report.key_id, stamp, correction).await;
    }

    /// The core refuses the report. The ban stays, and is not reported again.
    pub(super) fn refused(&self, report: &Report) {
        if let Some(record) = self.write().by_key.get_mut(&report.key_id)
            && record.last.is(report.ban)
        {
            record.source = Source::Refused;
        }
    }

    /// The bans that the core is to be told of.
    pub(super) fn unreported(&self) -> Vec<Report> {
        let records = self.read();
        let due = records.by_key.iter().filter(|(_, record)| record.source == Source::Unreported);
        due.filter_map(|(key_id, record)| match record.last {
            LastBan::Banned(ban, _) => {
                Some(Report { key_id: Arc::clone(key_id), account_id: record.account_id, ban })
            }
            LastBan::Lifted(_) => None,
        })
        .collect()
    }

    /// Waits until a ban has been imposed since this was last asked.
    pub(super) async fn new_ban(&self) {
        self.imposed.notified().await;
    }

    /// Keeps a new ban, to be reported, unless something newer has been told meanwhile.
    fn record_new(&self, account_id: i64, key_id: &Arc<str>, ban: Ban, cause: BanCause, now: UnixMillis) {
        let mut records = self.write();
        if records.by_key.get(key_id).is_none_or(|known| known.last.moment() < ban.from) {
            let record = BanRecord::new(account_id, LastBan::Banned(ban, cause), Source::Unreported);
            records.put(key_id, record, now);
            self.imposed.notify_one();
        }
    }

    async fn correct_key(&self, key_id: &Arc<str>, stamp: Stamp, correction: Option<Correction>) {
        if let Some(correction) = correction {
            let account_id = stamp.account_id;
            self.correct(&LimitKey::ApiKey { account_id, key_id: Arc::clone(key_id) }, correction).await;
        }
    }

    /// What fails here is done by the first request that it matters for: [`Self::settle`].
    async fn correct(&self, limit_key: &LimitKey, Correction { ban, upto }: Correction) {
        if let Err(unavailable) = self.limiter.set_ban(limit_key, ban, upto).await {
            tracing::debug!(error = %unavailable, "could not pass on a ban yet");
        }
    }

    // Neither is ever held over an await.

    fn read(&self) -> RwLockReadGuard<'_, BanRecords> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BanRecords> {
        self.records.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BanRecords {
    /// Holds a decision against what is known of the key.
    fn judge(&self, key_id: &Arc<str>, decision: &Decision) -> Verdict {
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

    fn set_from_core(
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
        self.put(key_id, BanRecord::new(stamp.account_id, last.clone(), Source::of(stamp)), now);
        match before {
            Some(before) if before.is_alike(&last) => None, // the limiter was told
            Some(before) => Some(last.correction_after(before.moment())),
            None => Some(last.correction()),
        }
    }

    fn report_accepted(
        &mut self,
        report: &Report,
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
        self.put(&report.key_id, BanRecord::new(stamp.account_id, last, Source::of(stamp)), now);
        correction
    }

    fn put(&mut self, key_id: &Arc<str>, record: BanRecord, now: UnixMillis) {
        if self.by_key.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_key.retain(|_, record| now < record.forget_at);
            self.sweep_at = self.by_key.len().saturating_mul(2);
        }
        self.by_key.insert(Arc::clone(key_id), record);
    }
}

impl BanRecord {
    fn new(account_id: i64, last: LastBan, source: Source) -> Self {
        let end = match last {
            LastBan::Banned(ban, _) => ban.until,
            LastBan::Lifted(at) => at,
        };
        Self { account_id, last, source, forget_at: end.plus(MEMORY) }
    }
}

impl LastBan {
    /// Up to when bans are accounted for.
    fn moment(&self) -> UnixMillis {
        match self {
            Self::Banned(ban, _) => ban.from,
            Self::Lifted(at) => *at,
        }
    }

    fn is_in_force(&self, now: UnixMillis) -> bool {
        matches!(self, Self::Banned(ban, _) if now < ban.until)
    }

    /// Whether this is that ban. A limiter whose clock is behind began it later, so its end tells.
    fn is(&self, ban: Ban) -> bool {
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

    fn correction(&self) -> Correction {
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
    fn of(stamp: Stamp) -> Self {
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

/// The core's words for a ban that a limiter imposed.
pub(super) fn ban_to_core(ban: Ban) -> internal::Ban {
    let millis = |moment: UnixMillis| i64::try_from(moment.0).unwrap_or(i64::MAX);
    internal::Ban {
        imposed_at_ms: millis(ban.from),
        ends_at_ms: millis(ban.until),
        ..internal::Ban::default()
    }
}

/// What the core tells of a key's bans.
pub(super) fn last_ban_from_core(ban: Option<internal::Ban>, lifted_at_ms: Option<i64>) -> Option<LastBan> {
    match ban {
        Some(ban) => ban_from_core(ban),
        None => lifted_at_ms.and_then(moment).map(LastBan::Lifted),
    }
}

fn ban_from_core(from_core: internal::Ban) -> Option<LastBan> {
    let ban = Ban { from: moment(from_core.imposed_at_ms)?, until: moment(from_core.ends_at_ms)? };
    let cause = match from_core.origin() {
        internal::BanOrigin::Unspecified => BanCause::Unknown,
        internal::BanOrigin::Limiter => BanCause::IgnoredRefusals,
        internal::BanOrigin::Operator => {
            BanCause::Operator(Some(from_core.reason).filter(|reason| !reason.is_empty()).map(Into::into))
        }
    };
    (ban.from < ban.until).then_some(LastBan::Banned(ban, cause))
}

fn moment(millis: i64) -> Option<UnixMillis> {
    u64::try_from(millis).ok().map(UnixMillis)
}

#[cfg(test)]
mod tests;
