//! All that a limiter keeps of a caller, as its owner or an operator may see it.

use std::sync::Arc;

use petstore_clock::UnixMillis;

use super::decision::{Decision, Outcome};

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
    pub last_ban: Option<Ban>,
}

impl LimitStatus {
    /// The ban that is in force.
    #[must_use]
    pub fn ban(&self) -> Option<Ban> {
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

/// A time in which every request of a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it was imposed.
    pub from: UnixMillis,
    /// The first moment after it; later than `from`.
    pub until: UnixMillis,
}

/// Why a key is banned, as far as this gateway knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BanCause {
    /// Not known yet: another gateway set the ban a moment ago.
    #[default]
    Unknown,
    /// The key kept sending after 429.
    IgnoredRefusals,
    /// An operator banned it, and may have said why.
    Operator(Option<Arc<str>>),
}
