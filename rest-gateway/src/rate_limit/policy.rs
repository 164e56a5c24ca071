//! The rate limit policy: pure functions that every limiter applies, wherever its counters are kept.
//!
//! Integers only, all below 2⁵³, so that a Redis script can compute the same. Of an account, its windows are
//! kept; of each API key, its abuse state; of a client address, windows alone.

use petstore_clock::UnixMillis;

use super::{
    abuse::{AbuseState, TimeSpan},
    ban::BanPeriod,
    decision::{Decision, Outcome, Scope},
    limit_status::{LimitStatus, Strikes},
    quota::Quota,
    windows::Windows,
};

/// What is kept of a caller between its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Of the account, shared by all its keys, or of the address.
    pub(crate) windows: Windows,
    /// Of the key. An address has none: pass the default and keep nothing.
    pub(crate) abuse: AbuseState,
}

/// Decides on one request and counts it, in both windows or in none.
pub(crate) fn take(record: Record, quota: Quota, now: UnixMillis) -> (Decision, Record) {
    let (decision, current) = look(record, quota, now);
    let Record { windows, abuse } = current;
    match decision.outcome {
        Outcome::Banned => (decision, current), // in a ban nothing counts
        Outcome::Admitted => {
            let windows = windows.plus_one(now.0);
            let (minute, day) = windows.view(quota, now.0);
            (Decision { minute, day, ..decision }, Record { windows, abuse: abuse.admitted(now.0) })
        }
        Outcome::RateLimited | Outcome::QuotaExceeded => {
            let retry_after = decision.retry_after_secs().unwrap_or(1).saturating_mul(1_000);
            let (abuse, is_strike) = abuse.refused(now.0, retry_after, quota.per_minute);
            // The strike that brings a ban is answered as its first refusal.
            (in_force(Decision { is_strike, ..decision }, abuse), Record { windows, abuse })
        }
    }
}

/// All that is kept of a caller and still matters.
pub(crate) fn inspect(record: Record, quota: Quota, now: UnixMillis) -> LimitStatus {
    let (decision, Record { abuse, .. }) = look(record, quota, now);
    let AbuseState { refused, striking, strikes, ban, ban_length } = abuse;
    LimitStatus {
        decision,
        refused_until: (refused != TimeSpan::default()).then_some(UnixMillis(refused.until)),
        strikes: (strikes > 0).then_some(Strikes { count: strikes, resets_at: UnixMillis(striking.until) }),
        last_ban: (ban_length > 0)
            .then_some(BanPeriod { from: UnixMillis(ban.from), until: UnixMillis(ban.until) }),
    }
}

/// The decision before anything is counted, and what of the record still matters.
fn look(record: Record, quota: Quota, now: UnixMillis) -> (Decision, Record) {
    let current = Record { windows: record.windows.at(now.0), abuse: record.abuse.at(now.0) };
    let (minute, day) = current.windows.view(quota, now.0);
    let outcome = Outcome::from_windows(minute, day);
    let scope = Scope::Shared;
    let decision = Decision { outcome, is_strike: false, now, minute, day, ban: None, scope };
    (in_force(decision, current.abuse), current)
}

fn in_force(decision: Decision, abuse: AbuseState) -> Decision {
    match abuse.ban_in_force(decision.now.0) {
        Some(ban) => Decision { outcome: Outcome::Banned, ban: Some(ban), ..decision },
        None => decision,
    }
}

#[cfg(test)]
mod abuse_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod window_tests;
