//! Bans of keys (docs/contract.md, 6.8). Gateways impose them by the rate limit policy; operators add and
//! lift them. The core only remembers.

use std::time::Duration;

use petstore_clock::UnixMillis;

use super::{AccountName, KeyId, Violation, text::parse_line};

/// A time in which every request of a key is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it was imposed.
    pub from: UnixMillis,
    /// When it ends; later than `from`.
    pub until: UnixMillis,
    /// Who imposed it.
    pub origin: BanOrigin,
}

/// Who imposed a ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanOrigin {
    /// A gateway, because the key kept sending after 429.
    Limiter,
    /// An operator, who may have said why.
    Operator(Option<StatedReason>),
}

/// Why an operator bans a key or suspends an account, as its owner is told: 1 to 200 characters, not blank,
/// without control characters, API keys and operator tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedReason(String);

impl StatedReason {
    const MAX_CHARS: usize = 200;

    /// # Errors
    ///
    /// What would be right.
    pub fn parse(raw: &str) -> Result<Self, Violation> {
        parse_line("reason", raw, Self::MAX_CHARS, "must be 1 to 200 characters long and not blank").map(Self)
    }

    /// The reason in a message, in which an empty one means that none is given.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub(crate) fn parse_optional(raw: &str) -> Result<Option<Self>, Violation> {
        Some(raw).filter(|raw| !raw.is_empty()).map(Self::parse).transpose()
    }

    /// The reason as the database keeps it.
    pub(crate) const fn stored(reason: String) -> Self {
        Self(reason)
    }

    /// The reason.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ban {
    /// A ban is remembered for so long after its end, for the next one is twice as long.
    pub(crate) const MEMORY: Duration = Duration::from_hours(24);

    /// A lifting is remembered for longer than any ban that it lifted could matter: Redis may have kept one.
    pub(crate) const LIFTING_MEMORY: Duration = Duration::from_hours(24 * 370);

    /// # Errors
    ///
    /// When it does not end after it begins.
    pub(crate) fn new(from: UnixMillis, until: UnixMillis, origin: BanOrigin) -> Result<Self, Violation> {
        if from < until {
            Ok(Self { from, until, origin })
        } else {
            Err(Violation::new("ban", "must end after it begins"))
        }
    }
}

/// What is kept of a key's bans: the last one, or since when they are lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BanNote {
    Banned(Ban),
    /// All bans imposed up to this moment are lifted, also those that are reported later.
    Lifted(UnixMillis),
}

impl BanNote {
    /// Whether a ban that a gateway reports takes its place: one that is newer and ends later. So no report
    /// shortens a ban, undoes what an operator did after it was imposed, or changes anything when it is
    /// repeated.
    pub(crate) fn gives_way_to(&self, reported: &Ban) -> bool {
        match self {
            Self::Banned(kept) => reported.from >= kept.from && reported.until > kept.until,
            Self::Lifted(at) => reported.from > *at,
        }
    }

    /// The last ban, while it matters.
    pub(crate) fn last_ban(&self, now: UnixMillis) -> Option<&Ban> {
        match self {
            Self::Banned(ban) if now < ban.until.plus(Ban::MEMORY) => Some(ban),
            Self::Banned(_) | Self::Lifted(_) => None,
        }
    }

    /// Until when bans are lifted, if they are.
    pub(crate) const fn lifted_at(&self) -> Option<UnixMillis> {
        match self {
            Self::Banned(_) => None,
            Self::Lifted(at) => Some(*at),
        }
    }
}

/// A ban in force, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BannedKey {
    /// The key.
    pub key_id: KeyId,
    /// The account that it belongs to.
    pub account: AccountName,
    /// Its ban.
    pub ban: Ban,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(from: u64, until: u64) -> Ban {
        Ban::new(UnixMillis(from), UnixMillis(until), BanOrigin::Limiter).unwrap()
    }

    #[test]
    fn of_two_bans_a_newer_one_that_ends_later_is_kept() {
        let kept = BanNote::Banned(ban(10, 20));
        assert!(kept.gives_way_to(&ban(10, 21)) && kept.gives_way_to(&ban(15, 21)));
        assert!(!kept.gives_way_to(&ban(10, 20)) && !kept.gives_way_to(&ban(12, 19)));
        assert!(!kept.gives_way_to(&ban(5, 21)), "the kept one replaced it");
    }

    #[test]
    fn a_reason_is_one_short_line_without_a_key() {
        for right in ["x", "open invoice – write to sales@example.com", &"ä".repeat(200)] {
            assert_eq!(StatedReason::parse(right).unwrap().as_str(), right);
        }
        for wrong in ["", " ", "a\nb", "a\u{7f}", &"x".repeat(201), "see pet_live_0", "pet_test_x"] {
            assert_eq!(StatedReason::parse(wrong).unwrap_err().field, "reason", "{wrong:?}");
        }
    }

    #[test]
    fn what_was_imposed_before_a_lifting_stays_lifted() {
        let lifted = BanNote::Lifted(UnixMillis(15));
        assert!(!lifted.gives_way_to(&ban(15, 99)));
        assert!(lifted.gives_way_to(&ban(16, 17)));
        assert_eq!(lifted.last_ban(UnixMillis(0)), None);
    }

    #[test]
    fn a_ban_matters_until_a_day_after_its_end() {
        let end = ban(10, 20).until.plus(Ban::MEMORY);
        let note = BanNote::Banned(ban(10, 20));
        assert_eq!(note.last_ban(end.minus(Duration::from_millis(1))), Some(&ban(10, 20)));
        assert_eq!(note.last_ban(end), None);
    }
}
