//! The two fixed windows of an account or address. Pure: integers in, integers out.

use std::num::NonZeroU16;

use petstore_clock::UnixMillis;

use super::Quota;

/// Length of the minute window, in milliseconds.
pub const MINUTE: u64 = 60_000;

/// Length of the day window, in milliseconds. Unix days have no leap seconds.
pub const DAY: u64 = 86_400_000;

/// One window as the client may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowView {
    /// Requests allowed in the window.
    pub limit: u64,
    /// Requests left in it; never more than `limit`.
    pub remaining: u64,
    /// Time at which it ends.
    pub resets_at: UnixMillis,
}

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
