//! Bans. The core's database has the word: what it tells of a key is set in the limiter, wherever that keeps
//! bans, and it is told of those that a limiter imposed. What this gateway knows is held against every
//! decision, so that a limiter that lost a ban, or kept one that was lifted, is put right by the first
//! request.

mod records;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1 as internal;
use tokio::sync::Notify;

pub(super) use self::records::{BanReport, LastBan};
use self::records::{Correction, KnownBan, KnownBans, Source, Verdict};
use super::changes::Stamp;
use crate::rate_limit::{
    BanCause, BanPeriod, Decision, LimitKey, LimiterUnavailable, Outcome, Quota, RateLimiter,
};

/// Keeps limiter and core alike. What a limiter imposed holds at once, whether the core can be told or not.
#[derive(Debug)]
pub(super) struct Bans {
    limiter: Arc<dyn RateLimiter>,
    records: RwLock<KnownBans>,
    imposed: Notify,
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
        report: &BanReport,
        from_core: Option<LastBan>,
        stamp: Stamp,
        now: UnixMillis,
    ) {
        let correction = self.write().report_accepted(report, from_core, stamp, now);
        self.correct_key(&report.key_id, stamp, correction).await;
    }

    /// The core refuses the report. The ban stays, and is not reported again.
    pub(super) fn refused(&self, report: &BanReport) {
        if let Some(record) = self.write().by_key.get_mut(&report.key_id)
            && record.last.is(report.ban)
        {
            record.source = Source::Refused;
        }
    }

    /// The bans that the core is to be told of.
    pub(super) fn unreported(&self) -> Vec<BanReport> {
        let records = self.read();
        let due = records.by_key.iter().filter(|(_, record)| record.source == Source::Unreported);
        due.filter_map(|(key_id, record)| match record.last {
            LastBan::Banned(ban, _) => {
                Some(BanReport { key_id: Arc::clone(key_id), account_id: record.account_id, ban })
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
    fn record_new(
        &self,
        account_id: i64,
        key_id: &Arc<str>,
        ban: BanPeriod,
        cause: BanCause,
        now: UnixMillis,
    ) {
        let mut records = self.write();
        if records.by_key.get(key_id).is_none_or(|known| known.last.moment() < ban.from) {
            let record = KnownBan::new(account_id, LastBan::Banned(ban, cause), Source::Unreported);
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

    fn read(&self) -> RwLockReadGuard<'_, KnownBans> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownBans> {
        self.records.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The core's words for a ban that a limiter imposed.
pub(super) fn ban_to_core(ban: BanPeriod) -> internal::Ban {
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
    let ban = BanPeriod { from: moment(from_core.imposed_at_ms)?, until: moment(from_core.ends_at_ms)? };
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
