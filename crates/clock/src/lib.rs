//! Time as an argument.
//!
//! Code that needs the current time takes a [`Clock`]. In production that is [`Clock::system`]; a test takes
//! [`Clock::manual`] and moves it, instead of waiting.
//!
//! ```
//! use std::time::Duration;
//!
//! use petstore_clock::{Clock, UnixMillis};
//!
//! fn has_expired(expires_at: UnixMillis, clock: &Clock) -> bool {
//!     clock.now() >= expires_at
//! }
//!
//! let (clock, hand) = Clock::manual(UnixMillis::from_secs(1_764_892_800));
//! let expires_at = clock.now().plus(Duration::from_hours(24));
//! assert!(!has_expired(expires_at, &clock));
//! hand.advance(Duration::from_hours(24)); // without waiting
//! assert!(has_expired(expires_at, &clock));
//! ```

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Time in whole milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted (Unix time).
///
/// Two times are compared with [`since`](Self::since), which never goes below zero, because clocks are set
/// back.
///
/// ```
/// # use petstore_clock::UnixMillis;
/// # use std::time::Duration;
/// let refused_at = UnixMillis(1_764_892_800_250);
/// let ends_at = refused_at.plus(Duration::from_millis(29_400));
/// assert_eq!(ends_at.to_string(), "2025-12-05T00:00:29Z");
/// assert_eq!(ends_at.as_secs_ceil(), 1_764_892_830); // for a client: never too early
/// assert_eq!(refused_at.since(ends_at), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Returns the time this many whole seconds after the epoch.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// Returns the whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the whole seconds since the epoch, rounded up: the first second that is not before this time.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Returns the time later by `duration`, saturating at the maximum.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// Returns the time earlier by `duration`, saturating at the epoch.
    #[must_use]
    pub const fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// Returns the duration since `earlier`; zero if this time is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Writes RFC 3339 in UTC, to the second: `2026-11-20T18:46:20Z`.
impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.as_secs()).ok().and_then(|secs| jiff::Timestamp::from_second(secs).ok()) {
            Some(timestamp) => timestamp.fmt(f),
            None => f.write_str("the end of time"),
        }
    }
}

const fn millis(duration: Duration) -> u64 {
    // 585 million years fit; a longer duration is cut to that.
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis() as u64)
}

/// Clock of the system or of a test. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Returns a clock that only advances by hand, and the handle that advances it.
    #[must_use]
    pub fn manual(start: UnixMillis) -> (Self, ManualClock) {
        let time = Arc::new(AtomicU64::new(start.0));
        (Self(Source::Manual(Arc::clone(&time))), ManualClock(time))
    }

    /// Returns the current time; the epoch if the machine's clock is set before it.
    #[must_use]
    pub fn now(&self) -> UnixMillis {
        match &self.0 {
            Source::System => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the one place where the machine's clock is read"
                )]
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                UnixMillis(millis(since_epoch))
            }
            Source::Manual(time) => UnixMillis(time.load(Ordering::SeqCst)),
        }
    }
}

/// Handle that moves the [`Clock`] that was created with it.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, to: UnixMillis) {
        self.0.store(to.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_it_is_moved() {
        let (clock, hand) = Clock::manual(UnixMillis::from_secs(10));
        assert_eq!(clock.now(), UnixMillis(10_000));
        hand.advance(Duration::from_millis(1));
        assert_eq!(clock.clone().now(), UnixMillis(10_001));
        hand.set(UnixMillis(7));
        assert_eq!(clock.now(), UnixMillis(7));
    }

    #[test]
    fn seconds_round_as_documented() {
        assert_eq!((UnixMillis(1_001).as_secs(), UnixMillis(1_001).as_secs_ceil()), (1, 2));
        assert_eq!((UnixMillis(1_000).as_secs(), UnixMillis(1_000).as_secs_ceil()), (1, 1));
    }

    #[test]
    fn a_time_is_written_as_rfc_3339() {
        assert_eq!(UnixMillis(1_764_892_800_999).to_string(), "2025-12-05T00:00:00Z");
        assert_eq!(UnixMillis(u64::MAX).to_string(), "the end of time");
    }
}
