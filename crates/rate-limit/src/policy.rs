//! The rate limit policy: pure functions that every limiter applies, independent of the place of its
//! counters.
//!
//! All numbers are integers below 2⁵³, so that a Redis script can compute the same results. An account keeps
//! windows, each API key an abuse state, and a client address only windows.

use std::num::NonZeroU16;

use petstore_clock::UnixMillis;

use super::{
    Quota,
    decision::{DAY, Decision, LimitStatus, MINUTE, Outcome, Strikes, WindowView},
};

/// Fixed window that has counted; the default has not been opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Unix time in milliseconds at which it began.
    pub(crate) from: u64,
    /// Requests counted since; 0 only when it has not been opened.
    pub(crate) used: u64,
}

impl Window {
    /// Returns the window if it is running, and otherwise one that has not been opened.
    ///
    /// A window that begins in the future was opened before the clock was set back. Up to its own length
    /// ahead it is still running, so that no such jump admits requests twice. Further ahead it is void, so
    /// that no jump freezes a caller for longer than two windows.
    fn at(self, now: u64, length: u64) -> Self {
        let running = self.from <= now.saturating_add(length) && now < self.from.saturating_add(length);
        if running { self } else { Self::default() }
    }

    /// Counts one request, opening the window at `opens_at` if need be.
    fn plus_one(self, opens_at: u64) -> Self {
        if self.used == 0 { Self { from: opens_at, used: 1 } } else { Self { used: self.used + 1, ..self } }
    }

    /// Returns the window that a client was shown.
    fn shown(view: WindowView, length: u64) -> Self {
        match view.limit.saturating_sub(view.remaining) {
            0 => Self::default(),
            used => Self { from: view.resets_at.0.saturating_sub(length), used },
        }
    }

    /// Returns the later of two windows of one caller, or the higher count if they are one window.
    pub(crate) fn latest(self, other: Self) -> Self {
        [self, other].into_iter().max_by_key(|window| (window.from, window.used)).unwrap_or_default()
    }

    /// Returns one gateway's part of a count that all share, rounded up.
    fn part(self, gateways: u64) -> Self {
        Self { used: self.used.div_ceil(gateways), ..self }
    }

    /// Adds the count of another window. This window keeps its beginning if it has counted.
    pub(crate) fn plus(self, other: Self) -> Self {
        let from = if self.used == 0 { other.from } else { self.from };
        Self { from, used: self.used.saturating_add(other.used) }
    }

    /// Subtracts the count of another window.
    pub(crate) fn less(self, other: Self) -> Self {
        match self.used.saturating_sub(other.used) {
            0 => Self::default(),
            used => Self { used, ..self },
        }
    }

    fn view(self, limit: u64, opens_at: u64, length: u64) -> WindowView {
        let from = if self.used == 0 { opens_at } else { self.from };
        WindowView {
            limit,
            remaining: limit.saturating_sub(self.used),
            resets_at: UnixMillis(from.saturating_add(length)),
        }
    }
}

/// Counts of an account or address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Window of 60 s, opened by the first counted request.
    pub(crate) minute: Window,
    /// Window of the UTC calendar day.
    pub(crate) day: Window,
}

impl Windows {
    /// Returns the windows that are still running. A window that has ended starts again.
    pub(crate) fn at(self, now: u64) -> Self {
        Self { minute: self.minute.at(now, MINUTE), day: self.day.at(now, DAY) }
    }

    /// Counts one request in both windows. Must be called on the result of [`Self::at`].
    pub(crate) fn plus_one(self, now: u64) -> Self {
        Self { minute: self.minute.plus_one(now), day: self.day.plus_one(day_start(now)) }
    }

    /// Returns the windows that a client was shown.
    pub(crate) fn shown(minute: WindowView, day: WindowView) -> Self {
        Self { minute: Window::shown(minute, MINUTE), day: Window::shown(day, DAY) }
    }

    /// Combines each window with the one of the same length in `other`.
    pub(crate) fn combined(self, with: fn(Window, Window) -> Window, other: Self) -> Self {
        Self { minute: with(self.minute, other.minute), day: with(self.day, other.day) }
    }

    /// Returns one gateway's part of counts that `gateways` gateways share, rounded up.
    pub(crate) fn part(self, gateways: NonZeroU16) -> Self {
        let gateways = u64::from(gateways.get());
        Self { minute: self.minute.part(gateways), day: self.day.part(gateways) }
    }

    /// Returns both windows as the client may see them. Must be called on the result of [`Self::at`].
    pub(crate) fn view(self, quota: Quota, now: u64) -> (WindowView, WindowView) {
        (self.minute.view(quota.per_minute, now, MINUTE), self.day.view(quota.per_day, day_start(now), DAY))
    }
}

fn day_start(now: u64) -> u64 {
    now - now % DAY
}

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

/// Decides on one request as [`take`] does if that `is_counted`, and otherwise as [`inspect`].
pub(crate) fn decide(
    is_counted: bool,
    record: Record,
    quota: Quota,
    settled_at: UnixMillis,
    now: UnixMillis,
) -> (LimitStatus, Record) {
    if !is_counted {
        return (inspect(record, quota, settled_at, now), record);
    }
    let (decision, next) = take(record, quota, settled_at, now);
    (decision.into(), next)
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

/// Time after the first 429, in milliseconds, in which requests that were in flight may still arrive.
const GRACE: u64 = 1_000;

/// Length of the span in which strikes are counted, in milliseconds. The first strike opens it.
const STRIKES_SPAN: u64 = 600_000;

/// Number of strikes that are tolerated on any plan.
const FEWEST_STRIKES: u64 = 100;

/// Maximum time, in milliseconds, by which a span may begin in the future, because the clock was set back
/// since. A span that begins later is void, or the jump would prolong it by as much.
const SKEW: u64 = MINUTE;

/// Span of time in Unix milliseconds; the default is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    /// First time in it.
    pub(crate) from: u64,
    /// First time after it.
    pub(crate) until: u64,
}

impl TimeSpan {
    fn new(from: u64, length: u64) -> Self {
        Self { from, until: from.saturating_add(length) }
    }

    /// Returns `true` if `now` is in the span, or before it by no more than [`SKEW`].
    fn holds(self, now: u64) -> bool {
        self.from <= now.saturating_add(SKEW) && now < self.until
    }
}

/// State of an API key that was refused; the default is that of a key that was never refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbuseState {
    /// Refused period: opened by a 429, it ends when that 429's `Retry-After` has passed.
    pub(crate) refused: TimeSpan,
    /// Ten minutes in which strikes are counted. They begin with the first strike, and again with the strike
    /// that exceeds the number.
    pub(crate) striking: TimeSpan,
    /// Number of strikes in them; 0 once there were too many.
    pub(crate) strikes: u64,
}

impl AbuseState {
    /// Returns the parts of the state that still matter. Spans that are over are left out, and so are spans
    /// that began before `settled_at`, because a ban or its lifting has settled them.
    pub(crate) fn at(self, now: u64, settled_at: UnixMillis) -> Self {
        let matters = |span: TimeSpan| span.holds(now) && span.from >= settled_at.0;
        let mut current = Self::default();
        if matters(self.refused) {
            current.refused = self.refused;
        }
        if matters(self.striking) {
            (current.striking, current.strikes) = (self.striking, self.strikes);
        }
        current
    }

    /// Returns the time at which the strikes were too many, if they were.
    pub(crate) fn struck_out_at(self) -> Option<UnixMillis> {
        let is_struck_out = self.strikes == 0 && self.striking != TimeSpan::default();
        is_struck_out.then_some(UnixMillis(self.striking.from))
    }

    /// Returns the state after an admitted request. After the grace period, the request ends the refused
    /// period instead of being a strike: the key is no longer being refused, as after a raised plan.
    pub(crate) fn admitted(self, now: u64) -> Self {
        if self.in_grace(now) { self } else { Self { refused: TimeSpan::default(), ..self } }
    }

    /// Returns the state after a request that the windows refused for `retry_after` milliseconds, and `true`
    /// if that was a strike. Must be called on the result of [`Self::at`].
    pub(crate) fn refused(self, now: u64, retry_after: u64, per_minute: u64) -> (Self, bool) {
        if !self.refused.holds(now) {
            return (Self { refused: TimeSpan::new(now, retry_after), ..self }, false);
        }
        if self.in_grace(now) { (self, false) } else { (self.struck(now, per_minute), true) }
    }

    /// Returns `true` if a request that arrives now may have been sent before the first 429 was seen.
    fn in_grace(self, now: u64) -> bool {
        now < self.refused.from.saturating_add(GRACE)
    }

    fn struck(self, now: u64, per_minute: u64) -> Self {
        if self.struck_out_at().is_some() {
            return self; // all gateways learn the same time
        }
        let striking = if self.strikes == 0 { TimeSpan::new(now, STRIKES_SPAN) } else { self.striking };
        let strikes = self.strikes + 1;
        if strikes <= FEWEST_STRIKES.max(per_minute.saturating_mul(2)) {
            return Self { striking, strikes, ..self };
        }
        Self { striking: TimeSpan::new(now, STRIKES_SPAN), strikes: 0, ..self }
    }
}

#[cfg(test)]
mod abuse_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod window_tests;
