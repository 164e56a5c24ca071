//! The rate limit policy: pure functions that every limiter applies, independent of the place of its
//! counters.
//!
//! All numbers are integers below 2⁵³, so that a Redis script can compute the same results. An account keeps
//! windows, each API key an abuse state, and a client address only windows.

use petstore_clock::UnixMillis;

use super::{
    Quota,
    abuse::{AbuseState, TimeSpan},
    decision::{Decision, LimitStatus, Outcome, Strikes},
    windows::Windows,
};

/// State of a caller between its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Windows of the account, shared by all its keys, or of the address.
    pub(crate) windows: Windows,
    /// State of the key. An address has none: pass the default and keep nothing.
    pub(crate) abuse: AbuseState,
}

/// Decides on one request and counts it, in both windows or in none. A refused period that began before
/// `settled_at` is no longer a reason for a strike.
pub(crate) fn take(
    record: Record,
    quota: Quota,
    settled_at: UnixMillis,
    now: UnixMillis,
) -> (Decision, Record) {
    let (decision, Record { windows, abuse }) = look(record, quota, settled_at, now);
    match decision.outcome {
        Outcome::Admitted => {
            let windows = windows.plus_one(now.0);
            let (minute, day) = windows.view(quota, now.0);
            (Decision { minute, day, ..decision }, Record { windows, abuse: abuse.admitted(now.0) })
        }
        Outcome::RateLimited | Outcome::QuotaExceeded => {
            let retry_after = decision.retry_after_secs().unwrap_or(1).saturating_mul(1_000);
            let (abuse, is_strike) = abuse.refused(now.0, retry_after, quota.per_minute);
            let struck_out_at = abuse.struck_out_at().filter(|_| is_strike);
            (Decision { is_strike, struck_out_at, ..decision }, Record { windows, abuse })
        }
    }
}

/// Returns the parts of a caller's state that still matter.
pub(crate) fn inspect(record: Record, quota: Quota, settled_at: UnixMillis, now: UnixMillis) -> LimitStatus {
    let (decision, Record { abuse, .. }) = look(record, quota, settled_at, now);
    let AbuseState { refused, striking, strikes } = abuse;
    LimitStatus {
        decision,
        refused_until: (refused != TimeSpan::default()).then_some(UnixMillis(refused.until)),
        strikes: (strikes > 0).then_some(Strikes { count: strikes, resets_at: UnixMillis(striking.until) }),
    }
}

/// Returns the decision before anything is counted, and the parts of the record that still matter.
fn look(record: Record, quota: Quota, settled_at: UnixMillis, now: UnixMillis) -> (Decision, Record) {
    let current = Record { windows: record.windows.at(now.0), abuse: record.abuse.at(now.0, settled_at) };
    let (minute, day) = current.windows.view(quota, now.0);
    (Decision::new(Outcome::from_windows(minute, day), now, minute, day), current)
}

#[cfg(test)]
mod abuse_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod window_tests;
