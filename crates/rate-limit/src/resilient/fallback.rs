//! Fallback limiter of a gateway while the shared counters are unreachable.

use std::{
    num::NonZeroU16,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use petstore_clock::{Clock, UnixMillis};

use crate::{
    Decision, LimitKey, LimitStatus, Quota,
    counters::CounterStore,
    policy::{self, AbuseState, Record, Window, Windows},
};

/// Limiter that limits each caller to this gateway's share: `max(1, limit ÷ gateways)` a window, rounded
/// down.
///
/// It starts from the last shared count that this gateway saw in the running window. It takes one gateway's
/// part of the count of all gateways, `used ÷ gateways` rounded up, as used of its share. So
///
/// - a caller that had used up the limit stays refused until the window ends;
/// - gateways that all saw the last count admit together no more than was left of the limit;
/// - regardless of what they saw, and of how often the shared counters come and go within a window, the
///   requests that a gateway admits on its own in a window stay within its share: the total within `limit +
///   gateways × share`;
/// - with one gateway, counting continues unchanged.
///
/// Time continues from the shared counters' time, so the end of a window does not change.
pub(super) struct Fallback {
    clock: Clock,
    gateways: NonZeroU16,
    /// Time by which the shared counters' clock was ahead of this gateway's when it was last seen, in
    /// milliseconds. It may be too long by the duration of the answer, but not too short.
    ahead: AtomicI64,
    /// Counts of all gateways, as the shared counters last showed them.
    seen: CounterStore,
    /// Requests that this gateway admitted on its own, and the strikes of that time. They are kept when the
    /// shared counters return, because those did not count them. The first requests of an address are among
    /// them at any time.
    own: CounterStore,
}

impl Fallback {
    pub(super) fn new(clock: Clock, gateways: NonZeroU16) -> Self {
        let (seen, own) = (CounterStore::bounded(), CounterStore::bounded());
        Self { clock, gateways, ahead: AtomicI64::new(0), seen, own }
    }

    /// Returns this gateway's time, which must be taken before the shared counters are asked.
    pub(super) fn local_time(&self) -> UnixMillis {
        self.clock.now()
    }

    /// Records the shared counters' time, as they answered a question that was asked at `asked_at` by this
    /// gateway's clock. If that took a second or more by this clock, it was probably set meanwhile. The next
    /// probe shows by how much.
    pub(super) fn learn_time(&self, now: UnixMillis, asked_at: UnixMillis) {
        if self.clock.now().since(asked_at) >= Duration::from_secs(1) {
            return;
        }
        self.ahead.store(now.0.cast_signed().wrapping_sub(asked_at.0.cast_signed()), Ordering::Relaxed);
    }

    /// Records a decision of the shared counters, which were asked at `asked_at`.
    pub(super) fn learn(&self, limit_key: &LimitKey, decision: &Decision, asked_at: UnixMillis) {
        self.learn_time(decision.now, asked_at);
        let shown = Windows::shown(decision.minute, decision.day);
        // Answers may overtake each other. The later window and the higher count are the valid ones.
        let learn = |known: Record, now: UnixMillis| {
            (
                (),
                Record {
                    windows: known.windows.at(now.0).combined(Window::latest, shown),
                    abuse: AbuseState::default(),
                },
            )
        };
        self.seen.update(limit_key, || decision.now, learn);
    }

    /// Returns the answer that the shared counters would give by their last known counts, at their time.
    pub(super) fn as_seen(&self, limit_key: &LimitKey, quota: Quota) -> LimitStatus {
        policy::inspect(self.seen.record(limit_key), quota, UnixMillis(0), self.now())
    }

    /// Decides on one request by this gateway's own counts, and counts it if that `is_counted`.
    pub(super) fn decide(
        &self,
        is_counted: bool,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> LimitStatus {
        let seen = self.seen.record(limit_key).windows;
        self.step(is_counted, limit_key, |own, now| {
            // This gateway's part of the shared counts that were seen.
            let seen = seen.at(now.0).part(self.gateways);
            let joined = Record { windows: seen.combined(Window::plus, own.windows.at(now.0)), ..own };
            let quota = share(quota, self.gateways);
            let (status, next) = policy::decide(is_counted, joined, quota, settled_at, now);
            (status, Record { windows: next.windows.combined(Window::less, seen), ..next })
        })
    }

    /// Decides on one of the first requests of an address, of which the shared counters know nothing, and
    /// counts it if that `is_counted`. `None` for any other.
    pub(super) fn decide_first(
        &self,
        is_counted: bool,
        address: &LimitKey,
        quota: Quota,
    ) -> Option<LimitStatus> {
        self.step(is_counted, address, |own, now| {
            if !self.is_first(own.windows.at(now.0), quota) {
                return (None, own);
            }
            let (status, next) = policy::decide(is_counted, own, quota, UnixMillis(0), now);
            (Some(status), next)
        })
    }

    /// Changes this gateway's own record in one atomic step, or only reads it if nothing is counted.
    fn step<R>(
        &self,
        is_counted: bool,
        limit_key: &LimitKey,
        step: impl FnOnce(Record, UnixMillis) -> (R, Record),
    ) -> R {
        if is_counted {
            self.own.update(limit_key, || self.now(), step)
        } else {
            step(self.own.record(limit_key), self.now()).0
        }
    }

    /// Returns the requests of an address that this gateway admitted on its own.
    pub(super) fn admitted(&self, address: &LimitKey) -> Windows {
        self.own.record(address).windows.at(self.now().0)
    }

    /// Returns `true` if the next request of an address with these requests is one of the first: less than
    /// half of this gateway's share of a minute is used, in the minute and in the day, so that a restart
    /// forgets no more. So is one that is refused by them alone.
    fn is_first(&self, admitted: Windows, quota: Quota) -> bool {
        let Windows { minute, day } = admitted;
        let half = share(quota, self.gateways).per_minute / 2;
        let is_far = minute.used < half && day.used < half;
        is_far || minute.used >= quota.per_minute || day.used >= quota.per_day
    }

    /// Returns the best estimate of the shared counters' time.
    pub(super) fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.now().0.saturating_add_signed(self.ahead.load(Ordering::Relaxed)))
    }
}

/// Returns the share of each gateway: the quota divided by their number, rounded down, and at least 1.
fn share(quota: Quota, gateways: NonZeroU16) -> Quota {
    let part = |limit: u64| (limit / u64::from(gateways.get())).max(1);
    Quota { per_minute: part(quota.per_minute), per_day: part(quota.per_day) }
}

#[cfg(test)]
mod tests;
