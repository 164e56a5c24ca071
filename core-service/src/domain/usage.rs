//! Counts of requests, by UTC day and by minute.

use petstore_clock::Minute;

use super::{AccountId, KeyId, Refusal, RefusalCount, Violation};

/// Maximum of any count: sums of several stay exact, also for clients whose numbers are doubles.
pub(crate) const MAX_COUNT: i64 = 1_000_000_000_000_000;

/// The requests of one minute that a gateway reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageMinute {
    pub(crate) minute: Minute,
    /// Key; `None` for requests that count for their day alone.
    pub(crate) key_id: Option<KeyId>,
    /// Number of answers with 2xx, with 4xx except 429, with 429, with 5xx, and of calls of the deprecated
    /// getPet, which are among the others too.
    pub(crate) counts: [i64; 5],
}

impl UsageMinute {
    /// Creates the counts that a gateway reports.
    ///
    /// # Errors
    ///
    /// If the minute is not from 1970 to 9999, or a count is negative or above [`MAX_COUNT`].
    pub(crate) fn new(minute: Minute, key_id: Option<KeyId>, counts: [i64; 5]) -> Result<Self, Violation> {
        for (holds, rule) in [
            (minute.is_valid(), "must have minutes from 1970 to 9999"),
            (counts.iter().all(|count| *count >= 0), "must not have negative numbers"),
            (counts.iter().all(|count| *count <= MAX_COUNT), "must not have counts above 1000000000000000"),
        ] {
            if !holds {
                return Err(Violation::new("requests", rule));
            }
        }
        Ok(Self { minute, key_id, counts })
    }
}

/// A report of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageReport {
    /// Requests by account, minute and key, each once.
    pub(crate) requests: Vec<(AccountId, UsageMinute)>,
    /// A sample of the requests that were refused.
    pub(crate) refusals: Vec<Refusal>,
    /// Number of refused requests by minute and cause, each once.
    pub(crate) refusal_counts: Vec<RefusalCount>,
}

/// Checks the name of a gateway's run: 1 to 64 visible ASCII characters.
///
/// # Errors
///
/// If the name is not of that form.
pub(crate) fn check_reporter(name: &str) -> Result<(), Violation> {
    if (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Violation::new("reporter", "must be 1 to 64 visible ASCII characters"))
    }
}
