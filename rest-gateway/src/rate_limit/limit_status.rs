//! All that a limiter keeps of a caller, as its owner or an operator may see it.

use petstore_clock::UnixMillis;

use super::decision::Decision;

/// The state of a caller's limits: its windows and, for an API key, its abuse state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// What a request would be answered now: a peek, with both windows.
    pub decision: Decision,
    /// The end of the refused period; requests until then, past the first second, are strikes.
    pub refused_until: Option<UnixMillis>,
    /// The strikes in the running ten minutes; `None` when there are none.
    pub strikes: Option<Strikes>,
}

/// Requests of a key that ignored 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// How many; at least 1.
    pub count: u64,
    /// When they are forgotten.
    pub resets_at: UnixMillis,
}
