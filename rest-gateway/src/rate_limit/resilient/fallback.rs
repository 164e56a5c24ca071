//! What a gateway decides by itself while the shared counters are unreachable.

use std::{
    num::NonZeroU16,
    sync::atomic::{AtomicI64, Ordering},
};

use petstore_clock::{Clock, UnixMillis};

use crate::rate_limit::{
    BanPeriod, Decision, LimitKey, LimitStatus, Quota,
    abuse::AbuseState,
    counter_store::CounterStore,
    policy::{self, Record},
    quota::share,
    windows::Windows,
};

/// Limits each caller to this gateway's share: `max(1, limit ÷ gateways)` a window, rounded down.
///
/// It starts from the last shared count that this gateway saw in the running window. Of what all gateways had
/// used then, it takes the part of one, `used ÷ gateways` rounded up, as used of its share. So
///
/// - who had used up the limit stays refused until the window ends;
/// - gateways that all saw the last count admit together no more than was left of the limit;
/// - whatever they saw, and however often the shared counters come and go within a window, what a gateway
///   admits by
///   itself in a window stays within its share: the total within `limit + gateways × share`;
/// - with one gateway, counting goes on as if nothing had happened.
///
/// A ban that was seen stays in force. Time goes on from the shared counters' time, so the windows end when
/// they would have ended.
#[derive(Debug)]
pub(super) struct Fallback {
    clock: Clock,
    gateways: NonZeroU16,
    /// By how much the shared counters' clock was ahead of this gateway's when it was last seen, in
    /// milliseconds; rather too much than too little, by what the answer took.
    ahead: AtomicI64,
    /// What the shared counters last showed: the counts of all gateways, and bans.
    seen: CounterStore,
    /// What this gateway admitted by itself, and the abuse states of that time. It is kept when the shared
    /// counters return, for they know nothing of it.
    own: CounterStore,
}

impl Fallback {
    pub(super) fn new(clock: Clock, gateways: NonZeroU16) -> Self {
        let (seen, own) = (CounterStore::at_most_50_000(), CounterStore::at_most_50_000());
        Self { clock, gateways, ahead: AtomicI64::new(0), seen, own }
    }

    /// What this gateway's clock shows: to be taken before the shared counters are asked.
    pub(super) fn local_time(&self) -> UnixMillis {
        self.clock.now()
    }

    /// Takes note of the shared counters' time, which they told when they were asked at `asked_at` by this
    /// gateway's.
    pub(super) fn learn_time(&self, now: UnixMillis, asked_at: UnixMillis) {
        self.ahead.store(now.0.cast_signed().wrapping_sub(asked_at.0.cast_signed()), Ordering::Relaxed);
    }

    /// Takes note of a decision of the shared counters, which were asked at `asked_at`.
    pub(super) fn learn(&self, limit_key: &LimitKey, decision: &Decision, asked_at: UnixMillis) {
        self.learn_time(decision.now, asked_at);
        let shown = Windows::shown(decision.minute, decision.day);
        let abuse = AbuseState::default().with_ban(decision.ban, decision.now, decision.now.0);
        // Answers may overtake each other: of the windows that run, the later and the higher count are the
        // truth.
        let learn = |known: Record, now: UnixMillis| {
            ((), Record { windows: known.windows.at(now.0).latest(shown), abuse })
        };
        self.seen.update(limit_key, || decision.now, learn);
    }

    /// What the shared counters would answer by what they last showed, at their time.
    pub(super) fn as_seen(&self, limit_key: &LimitKey, quota: Quota) -> LimitStatus {
        policy::inspect(self.seen.record(limit_key), quota, self.now())
    }

    /// Sets or lifts a ban in all that this gateway knows of the key.
    pub(super) fn set_ban(&self, limit_key: &LimitKey, ban: Option<BanPeriod>, upto: UnixMillis) {
        if matches!(limit_key, LimitKey::ApiKey { .. }) {
            self.seen.set_ban(limit_key, ban, upto, || self.now());
            self.own.set_ban(limit_key, ban, upto, || self.now());
        }
    }

    /// Decides on one request by itself.
    pub(super) fn take(&self, limit_key: &LimitKey, quota: Quota) -> Decision {
        let seen = self.seen.record(limit_key);
        let step = |own: Record, now| {
            let seen = self.part(seen, now);
            let (decision, next) = policy::take(joined(seen, own, now), share(quota, self.gateways), now);
            // A ban that was seen is not of this gateway's making.
            let abuse = if is_banned(seen, now) { own.abuse } else { next.abuse };
            (decision, Record { windows: next.windows.less(seen.windows), abuse })
        };
        super::on_its_own(self.own.update(limit_key, || self.now(), step))
    }

    /// The caller's limit status by this gateway's own counts. Nothing is counted.
    pub(super) fn inspect(&self, limit_key: &LimitKey, quota: Quota) -> LimitStatus {
        let now = self.now();
        let joined = joined(self.part(self.seen.record(limit_key), now), self.own.record(limit_key), now);
        let limit_status = policy::inspect(joined, share(quota, self.gateways), now);
        LimitStatus { decision: super::on_its_own(limit_status.decision), ..limit_status }
    }

    /// This gateway's part of what was seen.
    fn part(&self, seen: Record, now: UnixMillis) -> Record {
        Record { windows: seen.windows.at(now.0).part(self.gateways), ..seen }
    }

    /// The shared counters' time, as well as it is known.
    pub(super) fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.now().0.saturating_add_signed(self.ahead.load(Ordering::Relaxed)))
    }
}

/// What is used of a gateway's share: its part of what was seen, and what it admitted by itself.
fn joined(seen: Record, own: Record, now: UnixMillis) -> Record {
    let abuse = if is_banned(seen, now) { seen.abuse } else { own.abuse };
    Record { windows: seen.windows.plus(own.windows.at(now.0)), abuse }
}

fn is_banned(seen: Record, now: UnixMillis) -> bool {
    seen.abuse.ban_in_force(now.0).is_some()
}

#[cfg(test)]
mod tests;
