//! All that a limiter keeps of a caller, as its owner or an operator may see it.

use petstore_clock::UnixMillis;

use super::{
    ban::BanPeriod,
    decision::{Decision, Outcome},
};

/// The state of a caller's limits: its windows and, for an API key, its abuse state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// What a request would be answered now: a peek, with both windows.
    pub decision: Decision,
    /// The end of the refused period; requests until then, past the first second, are strikes.
    pub refused_until: Option<UnixMillis>,
    /// The strikes in the running ten minutes; `None` when there are none.
    pub strikes: Option<Strikes>,
    /// The key's last ban, remembered for a day after its end because the next one is twice as long.
    pub last_ban: Option<BanPeriod>,
}

impl LimitStatus {
    /// The ban that is in force.
    #[must_use]
    pub fn ban(&self) -> Option<BanPeriod> {
        self.last_ban.filter(|_| self.decision.outcome == Outcome::Banned)
    }
}

/// Requests of a key that ignored 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// How many; at least 1.
    pub count: u64,
    /// When they are forgotten.
    pub resets_at: UnixMillis,
}
