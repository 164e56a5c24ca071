//! The limiter that a gateway falls back on while the shared counters are unreachable.

use std::{
    num::NonZeroU16,
    sync::atomic::{AtomicI64, Ordering},
};

use petstore_clock::{Clock, UnixMillis};

use crate::rate_limit::{
    Decision, LimitKey, LimitStatus, Quota,
    abuse::AbuseState,
    counters::CounterStore,
    policy::{self, Record},
    windows::Windows,
};

/// Limits each caller to this gateway's share: `max(1, limit ÷ gateways)` a window, rounded down.
///
/// It starts from the last shared count that this gateway saw in the running window. Of what all gateways had
/// used then, it takes the part of one, `used ÷ gateways` rounded up, as used of its share. So
///
/// - a caller that had used up the limit stays refused until the window ends;
/// - gateways that all saw the last count admit together no more than was left of the limit;
/// - whatever they saw, and however often the shared counters come and go within a window, what a gateway
///   admits by
///   itself in a window stays within its share: the total within `limit + gateways × share`;
/// - with one gateway, counting goes on as if nothing had happened.
///
/// Time goes on from the shared counters' time, so the windows end when they would have ended.
#[derive(Debug)]
pub(super) struct Fallback {
    clock: Clock,
    gateways: NonZeroU16,
    /// By how much the shared counters' clock was ahead of this gateway's when it was last seen, in
    /// milliseconds; rather too much than too little, by what the answer took.
    ahead: AtomicI64,
    /// Counts of all gateways, as the shared counters last showed them.
    seen: CounterStore,
    /// Requests that this gateway admitted by itself, and the strikes of that time. They are kept when the
    /// shared counters return, which know nothing of them.
    own: CounterStore,
}

impl Fallback {
    pub(super) fn new(clock: Clock, gateways: NonZeroU16) -> Self {
        let (seen, own) = (CounterStore::bounded(), CounterStore::bounded());
        Self { clock, gateways, ahead: AtomicI64::new(0), seen, own }
    }

    /// Returns this gateway's time: to be taken before the shared counters are asked.
    pub(super) fn local_time(&self) -> UnixMillis {
        self.clock.now()
    }

    /// Takes note of the shared counters' time, as they answered a question that was asked at `asked_at` by
    /// this gateway's clock.
    pub(super) fn learn_time(&self, now: UnixMillis, asked_at: UnixMillis) {
        self.ahead.store(now.0.cast_signed().wrapping_sub(asked_at.0.cast_signed()), Ordering::Relaxed);
    }

    /// Takes note of a decision of the shared counters, which were asked at `asked_at`.
    pub(super) fn learn(&self, limit_key: &LimitKey, decision: &Decision, asked_at: UnixMillis) {
        self.learn_time(decision.now, asked_at);
        let shown = Windows::shown(decision.minute, decision.day);
        // Answers may overtake each other: of the windows that run, the later and the higher count are the
        // truth.
        let learn = |known: Record, now: UnixMillis| {
            ((), Record { windows: known.windows.at(now.0).latest(shown), abuse: AbuseState::default() })
        };
        self.seen.update(limit_key, || decision.now, learn);
    }

    /// Returns the answer that the shared counters would give by what they last showed, at their time.
    pub(super) fn as_seen(&self, limit_key: &LimitKey, quota: Quota) -> LimitStatus {
        policy::inspect(self.seen.record(limit_key), quota, UnixMillis(0), self.now())
    }

    /// Decides on one request by itself.
    pub(super) fn take(&self, limit_key: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Decision {
        let seen = self.seen.record(limit_key).windows;
        let step = |own: Record, now: UnixMillis| {
            let seen = self.part(seen, now);
            let joined = Record { windows: joined(seen, own, now), ..own };
            let (decision, next) = policy::take(joined, share(quota, self.gateways), settled_at, now);
            (decision, Record { windows: next.windows.less(seen), ..next })
        };
        super::on_its_own(self.own.update(limit_key, || self.now(), step))
    }

    /// Returns the caller's limit status by this gateway's own counts. Nothing is counted.
    pub(super) fn inspect(&self, limit_key: &LimitKey, quota: Quota, settled_at: UnixMillis) -> LimitStatus {
        let (now, own) = (self.now(), self.own.record(limit_key));
        let windows = joined(self.part(self.seen.record(limit_key).windows, now), own, now);
        let joined = Record { windows, ..own };
        let limit_status = policy::inspect(joined, share(quota, self.gateways), settled_at, now);
        LimitStatus { decision: super::on_its_own(limit_status.decision), ..limit_status }
    }

    /// Returns this gateway's part of what was seen.
    fn part(&self, seen: Windows, now: UnixMillis) -> Windows {
        seen.at(now.0).part(self.gateways)
    }

    /// Returns the shared counters' time, as well as it is known.
    pub(super) fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.now().0.saturating_add_signed(self.ahead.load(Ordering::Relaxed)))
    }
}

/// Returns the part of each gateway: of so many, rounded down, and at least 1.
fn share(quota: Quota, gateways: NonZeroU16) -> Quota {
    let part = |limit: u64| (limit / u64::from(gateways.get())).max(1);
    Quota { per_minute: part(quota.per_minute), per_day: part(quota.per_day) }
}

/// Returns what is used of a gateway's share: its part of what was seen, and what it admitted by itself.
fn joined(seen: Windows, own: Record, now: UnixMillis) -> Windows {
    seen.plus(own.windows.at(now.0))
}

#[cfg(test)]
mod tests;
