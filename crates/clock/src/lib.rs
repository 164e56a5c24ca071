//! Time as an argument, and the conversions between forms of time: Unix time, protobuf's timestamps, RFC
//! 3339, UTC days and minutes.
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

pub use prost_types::Timestamp;

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
    /// 9999-12-31T23:59:59.999Z: the last time that columns, clients and texts can hold.
    pub const LAST: Self = Self(253_402_300_799_999);

    /// Returns the time this many whole seconds after the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// Returns the whole seconds since the epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the whole seconds since the epoch, rounded up: the first second that is not before this time.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Returns the first whole second that is not before this time; [`LAST`](Self::LAST) if it is after it.
    pub fn ceil_to_sec(self) -> Self {
        Self::from_secs(self.as_secs_ceil()).min(Self::LAST)
    }

    /// Returns the milliseconds as columns and messages hold them.
    pub fn as_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Returns the time this many milliseconds after the epoch; `None` if it is not from 1970 to 9999.
    pub fn from_i64(millis: i64) -> Option<Self> {
        u64::try_from(millis).ok().map(Self).filter(|time| *time <= Self::LAST)
    }

    /// Returns the time of a stored number of milliseconds, which is 1970 if it is negative.
    pub fn stored(millis: i64) -> Self {
        Self(u64::try_from(millis).unwrap_or_default())
    }

    /// Returns the time as a protobuf message.
    pub fn to_timestamp(self) -> Timestamp {
        Timestamp {
            seconds: i64::try_from(self.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(self.0 % 1_000 * 1_000_000).unwrap_or_default(), // always fits
        }
    }

    /// Returns the time of a protobuf message, truncated to milliseconds; `None` if it is not from 1970 to
    /// 9999, or its nanoseconds are not those of one second.
    pub fn from_timestamp(Timestamp { seconds, nanos }: Timestamp) -> Option<Self> {
        let nanos = Some(nanos).filter(|nanos| (0..1_000_000_000).contains(nanos))?;
        Self::from_i64(seconds.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000_000))?)
    }

    /// Writes the time as an HTTP date, rounded down (IMF-fixdate, RFC 9110 §5.6.7):
    /// `Fri, 20 Nov 2026 18:46:20 GMT`. A time after 30 December 9999, 22:00 is written as that.
    pub fn to_http_date(self) -> String {
        let time = jiff::Timestamp::from_millisecond(self.as_i64()).unwrap_or(jiff::Timestamp::MAX);
        let printer = const { jiff::fmt::rfc2822::DateTimePrinter::new() };
        printer.timestamp_to_rfc9110_string(&time).unwrap_or_default() // every such time has the form
    }

    /// Returns the time later by `duration`, saturating at the maximum.
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// Returns the time earlier by `duration`, saturating at the epoch.
    pub const fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// Returns the duration since `earlier`; zero if this time is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Writes RFC 3339 in UTC, to the second: `2026-11-20T18:46:20Z`.
impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self > Self::LAST {
            return f.write_str("the end of time");
        }
        Timestamp { nanos: 0, ..self.to_timestamp() }.fmt(f)
    }
}

/// UTC calendar day: days since 1970-01-01. It is written as a date such as `2026-11-20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

impl Day {
    /// Returns the day that the time belongs to.
    pub fn containing(moment: UnixMillis) -> Self {
        Minute::containing(moment).day()
    }

    /// Returns the start of the day; that of 1970-01-01 if the day is before it.
    pub fn start(self) -> UnixMillis {
        Minute(self.0.saturating_mul(Minute::PER_DAY)).start()
    }

    /// Returns the day after.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the first day of its month.
    pub fn first_of_month(self) -> Self {
        self.minus(i64::from(self.date().day()) - 1)
    }

    /// Returns the last day of its month.
    pub fn last_of_month(self) -> Self {
        let date = self.date();
        Self(self.0.saturating_add(i64::from(date.days_in_month() - date.day())))
    }

    fn date(self) -> jiff::civil::Date {
        let midnight = jiff::Timestamp::from_millisecond(self.start().as_i64());
        jiff::tz::TimeZone::UTC.to_datetime(midnight.unwrap_or(jiff::Timestamp::MAX)).date()
    }

    /// Returns the day that is `days` before.
    pub const fn minus(self, days: i64) -> Self {
        Self(self.0.saturating_sub(days))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date().fmt(f)
    }
}

/// Minute of UTC: minutes since 1970-01-01T00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(pub i64);

impl Minute {
    /// Number of minutes of a day.
    pub const PER_DAY: i64 = 1_440;

    /// Returns the minute that the time belongs to.
    pub fn containing(moment: UnixMillis) -> Self {
        Self(i64::try_from(moment.as_secs() / 60).unwrap_or(i64::MAX))
    }

    /// Returns the start of the minute; that of 1970-01-01T00:00Z if the minute is before it.
    pub fn start(self) -> UnixMillis {
        UnixMillis::from_secs(u64::try_from(self.0).unwrap_or_default().saturating_mul(60))
    }

    /// Returns the minute that is `minutes` before.
    pub const fn minus(self, minutes: i64) -> Self {
        Self(self.0.saturating_sub(minutes))
    }

    /// Returns `true` if the minute is from 1970 to 9999.
    pub fn is_valid(self) -> bool {
        (0..=Self::containing(UnixMillis::LAST).0).contains(&self.0)
    }

    /// Returns the day that the minute belongs to.
    pub const fn day(self) -> Day {
        Day(self.0.div_euclid(Self::PER_DAY))
    }
}

/// Parses a time in RFC 3339, with any offset.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    // Not as `jiff::Timestamp`, which ends on 30 December 9999.
    let parsed = jiff::fmt::temporal::Pieces::parse(text).ok()?;
    let (local, offset) = (parsed.date().to_datetime(parsed.time()?), parsed.to_numeric_offset()?);
    let since_epoch = local.duration_since(jiff::civil::datetime(1970, 1, 1, 0, 0, 0, 0));
    let seconds = since_epoch.as_secs() - i64::from(offset.seconds());
    Some(Timestamp { seconds, nanos: since_epoch.subsec_nanos() })
}

/// Writes a time in RFC 3339, in UTC; `None` if it is not from 1970 to 9999.
pub fn format_timestamp(timestamp: Timestamp) -> Option<String> {
    UnixMillis::from_timestamp(timestamp).map(|_| timestamp.to_string())
}

/// Parses a duration such as `3600s`, `2h` or `90d`: its whole seconds and its nanoseconds.
pub fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let span: jiff::Span = text.parse().ok()?;
    let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    Some((duration.as_secs(), duration.subsec_nanos()))
}

/// Writes a duration as protobuf's JSON has it, to the millisecond: `3600.000s`.
pub fn format_duration(duration: Duration) -> String {
    format!("{}.{:03}s", duration.as_secs(), duration.subsec_millis())
}

/// Returns the whole seconds that a client must wait, rounded up and at least 1: `Retry-After: 0` would
/// invite a tight loop.
pub const fn whole_secs(wait: Duration) -> u64 {
    let secs = wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64);
    if secs == 0 { 1 } else { secs }
}

/// Returns the time since the epoch by the machine's clock; zero if that is set before the epoch.
#[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
pub fn machine_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

const fn millis(duration: Duration) -> u64 {
    // 585 million years fit; a longer duration is cut to that.
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis() as u64)
}

/// Clock of the system or of a test. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// Returns the machine's clock.
    pub const fn system() -> Self {
        Self(None)
    }

    /// Returns a clock that only advances by hand, and the handle that advances it.
    pub fn manual(start: UnixMillis) -> (Self, ManualClock) {
        let time = Arc::new(AtomicU64::new(start.0));
        (Self(Some(Arc::clone(&time))), ManualClock(time))
    }

    /// Returns the current time; the epoch if the machine's clock is set before it.
    pub fn now(&self) -> UnixMillis {
        match &self.0 {
            None => UnixMillis(millis(machine_time())),
            Some(time) => UnixMillis(time.load(Ordering::SeqCst)),
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
    fn text_forms_read_back() {
        let timestamp = parse_timestamp("2026-11-20T19:46:20.5+01:00").unwrap();
        assert_eq!(UnixMillis::from_timestamp(timestamp), Some(UnixMillis(1_795_200_380_500)));
        assert_eq!(format_timestamp(timestamp).as_deref(), Some("2026-11-20T18:46:20.500Z"));
        for (text, parts) in
            [("3600s", (3_600, 0)), ("2h", (7_200, 0)), ("1d", (86_400, 0)), ("0.250s", (0, 250_000_000))]
        {
            assert_eq!(parse_duration(text), Some(parts), "{text}");
        }
        assert_eq!(format_duration(Duration::from_millis(3_600_250)), "3600.250s");
        assert_eq!((parse_timestamp("yesterday"), parse_duration("soon")), (None, None));
        for incomplete in ["2026-11-20", "2026-11-20T19:46:20", "19:46:20Z"] {
            assert_eq!(parse_timestamp(incomplete), None, "{incomplete}");
        }
    }

    #[test]
    fn the_last_time_has_every_form() {
        let (last, text) = (UnixMillis::LAST, "9999-12-31T23:59:59.999Z");
        assert_eq!(format_timestamp(last.to_timestamp()).as_deref(), Some(text));
        assert_eq!(parse_timestamp(text).and_then(UnixMillis::from_timestamp), Some(last));
        assert_eq!(last.to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(last.ceil_to_sec().to_string(), "9999-12-31T23:59:59Z");
        let too_late = parse_timestamp("9999-12-31T23:59:59-00:01").unwrap();
        assert_eq!((UnixMillis::from_timestamp(too_late), format_timestamp(too_late)), (None, None));
    }

    #[test]
    fn a_wait_is_rounded_up_and_never_zero() {
        let secs = [0, 1, 1_000, 1_001].map(|millis| whole_secs(Duration::from_millis(millis)));
        assert_eq!(secs, [1, 1, 1, 2]);
    }

    #[test]
    fn a_timestamp_is_kept_to_the_millisecond_from_1970_to_9999() {
        let read = |seconds, nanos| UnixMillis::from_timestamp(Timestamp { seconds, nanos });
        assert_eq!(read(1, 1_999_999), Some(UnixMillis(1_001)));
        assert_eq!(read(253_402_300_799, 999_999_999), Some(UnixMillis::LAST));
        for moment in [UnixMillis(0), UnixMillis(1_795_200_380_250), UnixMillis::LAST] {
            assert_eq!(UnixMillis::from_timestamp(moment.to_timestamp()), Some(moment));
            assert_eq!(UnixMillis::from_i64(moment.as_i64()), Some(moment));
        }
        for (seconds, nanos) in
            [(-1, 0), (253_402_300_800, 0), (i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000)]
        {
            assert_eq!(read(seconds, nanos), None, "{seconds} {nanos}");
        }
        assert_eq!((UnixMillis::from_i64(-1), UnixMillis::from_i64(i64::MAX)), (None, None));
    }

    #[test]
    fn a_day_begins_at_midnight_and_reads_as_a_date() {
        let midnight = UnixMillis::from_secs(1_795_132_800); // 2026-11-20T00:00:00Z
        assert_eq!(Day::containing(midnight).to_string(), "2026-11-20");
        assert_eq!(Day::containing(midnight).start(), midnight);
        assert_eq!(Day::containing(UnixMillis(midnight.0 - 1)), Day::containing(midnight).minus(1));
        assert_eq!(Day(-5).to_string(), "1970-01-01");
        let leap_day = Day::containing(UnixMillis::from_secs(1_835_395_200)); // 2028-02-29
        assert_eq!(leap_day.first_of_month().to_string(), "2028-02-01");
        assert_eq!(leap_day.first_of_month().last_of_month(), leap_day);
        assert_eq!(leap_day.next().to_string(), "2028-03-01");
        assert_eq!(Minute::containing(UnixMillis(119_999)).start(), UnixMillis(60_000));
        let last = Minute::containing(UnixMillis::LAST);
        assert_eq!(last.day(), Day(2_932_896)); // 9999-12-31
        assert!(last.is_valid() && !Minute(last.0 + 1).is_valid() && !Minute(-1).is_valid());
    }

    #[test]
    fn a_time_is_written_as_rfc_3339() {
        assert_eq!(UnixMillis(1_764_892_800_999).to_string(), "2025-12-05T00:00:00Z");
        assert_eq!(UnixMillis(u64::MAX).to_string(), "the end of time");
    }

    #[test]
    fn a_time_is_written_as_an_http_date() {
        assert_eq!(UnixMillis(1_764_892_800_999).to_http_date(), "Fri, 05 Dec 2025 00:00:00 GMT");
        assert_eq!(UnixMillis::LAST.to_http_date(), "Thu, 30 Dec 9999 22:00:00 GMT");
    }
}
