//! The abuse state of an API key after its first 429: refused period, strikes, ban. Pure: integers in,
//! integers out.

use petstore_clock::UnixMillis;

use super::{
    ban::BanPeriod,
    windows::{DAY, MINUTE},
};

/// Requests that were under way when the first 429 was sent may still arrive for so long, in milliseconds.
const GRACE: u64 = 1_000;

/// Strikes are counted in fixed spans of so many milliseconds, opened by the first strike.
const STRIKES_SPAN: u64 = 600_000;

/// A key is never banned for fewer strikes than this.
const FEWEST_STRIKES: u64 = 100;

/// The first ban, in milliseconds; each further one is twice as long.
const FIRST_BAN: u64 = 300_000;

/// The longest ban, in milliseconds.
const LONGEST_BAN: u64 = DAY;

/// A key is a first offender again so many milliseconds after its last ban ended.
const BAN_MEMORY: u64 = DAY;

/// How far, in milliseconds, a span may begin in the future: the clock may have been set back since. What
/// begins later is void, or the jump would prolong it by as much.
const SKEW: u64 = MINUTE;

/// From a moment to just before another, in Unix milliseconds; the default is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    /// The first moment in it.
    pub(crate) from: u64,
    /// The first moment after it.
    pub(crate) until: u64,
}

impl TimeSpan {
    fn new(from: u64, length: u64) -> Self {
        Self { from, until: from.saturating_add(length) }
    }

    /// Whether `now` is in it, or before it by no more than [`SKEW`].
    fn holds(self, now: u64) -> bool {
        self.from <= now.saturating_add(SKEW) && now < self.until
    }
}

/// What is kept of an API key that was refused; the default is that of a key never refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbuseState {
    /// The refused period: opened by a 429, it ends when that 429's `Retry-After` has passed.
    pub(crate) refused: TimeSpan,
    /// The ten minutes in which strikes are being counted.
    pub(crate) striking: TimeSpan,
    /// Strikes in them.
    pub(crate) strikes: u64,
    /// The last ban, remembered for a day after its end.
    pub(crate) ban: TimeSpan,
    /// How long that ban was imposed for, in milliseconds: the next one is twice as long.
    pub(crate) ban_length: u64,
}

impl AbuseState {
    /// Only what still matters: what is over is forgotten.
    pub(crate) fn at(self, now: u64) -> Self {
        let mut current = Self::default();
        if self.refused.holds(now) {
            current.refused = self.refused;
        }
        if self.striking.holds(now) {
            (current.striking, current.strikes) = (self.striking, self.strikes);
        }
        let remembered = TimeSpan { until: self.ban.until.saturating_add(BAN_MEMORY), ..self.ban };
        if self.ban_length > 0 && remembered.holds(now) {
            (current.ban, current.ban_length) = (self.ban, self.ban_length);
        }
        current
    }

    /// The ban that is in force.
    pub(crate) fn ban_in_force(self, now: u64) -> Option<BanPeriod> {
        let TimeSpan { from, until } = self.ban;
        self.ban.holds(now).then_some(BanPeriod { from: UnixMillis(from), until: UnixMillis(until) })
    }

    /// With this ban as the last one, or with none; the next one is twice as long. A last one that was
    /// imposed after `upto` stays: whoever asks for this did not know of it. Like every ban it settles what
    /// was before, and so does lifting one. Setting what is set already changes nothing. A ban of a clock
    /// that is ahead is imposed now.
    pub(crate) fn with_ban(self, ban: Option<BanPeriod>, upto: UnixMillis, now: u64) -> Self {
        let current = self.at(now);
        let has_one = current.ban_length > 0;
        match ban {
            _ if has_one && current.ban.from > upto.0 => current,
            Some(ban) if has_one && current.ban.until == ban.until.0 => current,
            Some(ban) => {
                let span = TimeSpan { from: ban.from.0.min(now), until: ban.until.0 };
                Self { ban: span, ban_length: span.until.saturating_sub(span.from), ..Self::default() }
            }
            None if has_one => Self::default(),
            None => current,
        }
    }

    /// After a request that was let in. Past the grace it ends the refused period instead of being a strike:
    /// the key is not being refused any more, whatever it was told before (its plan may have been raised).
    pub(crate) fn admitted(self, now: u64) -> Self {
        if self.in_grace(now) { self } else { Self { refused: TimeSpan::default(), ..self } }
    }

    /// After a request that the windows refused for `retry_after` milliseconds, and whether that was a
    /// strike. To be asked of [`Self::at`].
    pub(crate) fn refused(self, now: u64, retry_after: u64, per_minute: u64) -> (Self, bool) {
        if !self.refused.holds(now) {
            return (Self { refused: TimeSpan::new(now, retry_after), ..self }, false);
        }
        if self.in_grace(now) { (self, false) } else { (self.struck(now, per_minute), true) }
    }

    /// Whether what arrives now may have been sent before the first 429 was seen.
    fn in_grace(self, now: u64) -> bool {
        now < self.refused.from.saturating_add(GRACE)
    }

    fn struck(self, now: u64, per_minute: u64) -> Self {
        let striking = if self.strikes == 0 { TimeSpan::new(now, STRIKES_SPAN) } else { self.striking };
        let strikes = self.strikes + 1;
        if strikes <= FEWEST_STRIKES.max(per_minute.saturating_mul(2)) {
            return Self { striking, strikes, ..self };
        }
        // A ban settles what led to it: after it, a 429 opens a new refused period and strikes count from
        // zero.
        let ban_length = if self.ban_length == 0 { FIRST_BAN } else { LONGEST_BAN.min(self.ban_length * 2) };
        Self { ban: TimeSpan::new(now, ban_length), ban_length, ..Self::default() }
    }
}
