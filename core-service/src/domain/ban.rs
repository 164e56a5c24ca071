//! Bans of keys (specification §8). Gateways impose them by their law of rate limits; operators add and lift them.
//! The core only remembers.

use std::time::Duration;

use petstore_clock::UnixMillis;

use super::{AccountName, KeyId, Violation};

/// A time in which every request of a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it was imposed.
    pub from: UnixMillis,
    /// When it ends; later than `from`.
    pub until: UnixMillis,
}

impl Ban {
    /// A ban is remembered for so long after its end, for the next one is twice as long.
    pub(crate) const MEMORY: Duration = Duration::from_hours(24);

    /// # Errors
    ///
    /// When it does not end after it begins.
    pub(crate) fn new(from: UnixMillis, until: UnixMillis) -> Result<Self, Violation> {
        if from < until {
            Ok(Self { from, until })
        } else {
            Err(Violation::new("ban", "must end after it begins"))
        }
    }
}

/// What is kept of a key's bans: the last one, or since when they are lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BanNote {
    Banned(Ban),
    /// All bans imposed up to this moment are lifted, also those that are reported later.
    Lifted(UnixMillis),
}

impl BanNote {
    /// Whether a ban that a gateway reports takes its place. Of two gateways that ban a key at once, the later end
    /// holds; a report that is repeated changes nothing, nor does one of a ban that was lifted meanwhile.
    pub(crate) fn gives_way_to(self, reported: Ban) -> bool {
        match self {
            Self::Banned(kept) => reported.until > kept.until,
            Self::Lifted(at) => reported.from > at,
        }
    }

    /// The last ban, while it matters.
    pub(crate) fn last_ban(self, now: UnixMillis) -> Option<Ban> {
        match self {
            Self::Banned(ban) if now < ban.until.plus(Ban::MEMORY) => Some(ban),
            Self::Banned(_) | Self::Lifted(_) => None,
        }
    }
}

/// A ban in force, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanRecord {
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
        Ban::new(UnixMillis(from), UnixMillis(until)).unwrap()
    }

    #[test]
    fn of_two_bans_the_one_that_ends_later_is_kept() {
        let kept = BanNote::Banned(ban(10, 20));
        assert!(kept.gives_way_to(ban(5, 21)));
        assert!(!kept.gives_way_to(ban(10, 20)) && !kept.gives_way_to(ban(12, 19)));
    }

    #[test]
    fn what_was_imposed_before_a_lifting_stays_lifted() {
        let lifted = BanNote::Lifted(UnixMillis(15));
        assert!(!lifted.gives_way_to(ban(15, 99)));
        assert!(lifted.gives_way_to(ban(16, 17)));
        assert_eq!(lifted.last_ban(UnixMillis(0)), None);
    }

    #[test]
    fn a_ban_matters_until_a_day_after_its_end() {
        let end = ban(10, 20).until.plus(Ban::MEMORY);
        let note = BanNote::Banned(ban(10, 20));
        assert_eq!(note.last_ban(end.minus(Duration::from_millis(1))), Some(ban(10, 20)));
        assert_eq!(note.last_ban(end), None);
    }
}
