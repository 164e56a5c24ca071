//! Bans of API keys.

use std::sync::Arc;

use petstore_clock::UnixMillis;

/// A time in which every request of a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPeriod {
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
