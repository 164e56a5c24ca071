//! Bans of keys (docs/contract.md, 6.8). Gateways impose them by the rate limit policy; operators add and
//! lift them. The core only stores them.

use petstore_clock::UnixMillis;

use super::{Remark, retention};
use crate::violations::Violation;

/// A period in which every request of a key is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Start.
    pub from: UnixMillis,
    /// End, later than `from`.
    pub until: UnixMillis,
    /// Author of the ban.
    pub origin: BanOrigin,
}

/// Author of a ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanOrigin {
    /// A gateway, because the key kept sending after 429.
    Limiter,
    /// An operator, who may have stated a reason.
    Operator(Option<Remark>),
}

impl BanOrigin {
    /// Returns the number that stands for the author in messages, and the reason, empty if none is stated.
    pub fn message(&self) -> (i32, String) {
        match self {
            Self::Limiter => (1, String::new()),
            Self::Operator(reason) => (2, reason.as_ref().map_or("", Remark::as_str).to_owned()),
        }
    }
}

impl Ban {
    /// Creates a ban.
    ///
    /// # Errors
    ///
    /// If it does not end after it begins.
    pub fn new(from: UnixMillis, until: UnixMillis, origin: BanOrigin) -> Result<Self, Violation> {
        Violation::check(from < until, "ban", "must end after it begins")?;
        Ok(Self { from, until, origin })
    }
}

/// Stored state of a key's bans: the last ban, or the time at which bans were lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanNote {
    /// The last ban.
    Banned(Ban),
    /// Time up to which imposed bans are lifted, including those that are reported later.
    Lifted(UnixMillis),
}

impl BanNote {
    /// Returns `true` if a ban that a gateway reports replaces this one: it must be newer and end later. So
    /// no report shortens a ban, undoes a later action of an operator, or has an effect when it is repeated.
    pub(crate) fn gives_way_to(&self, reported: &Ban) -> bool {
        match self {
            Self::Banned(kept) => reported.from >= kept.from && reported.until > kept.until,
            Self::Lifted(at) => reported.from > *at,
        }
    }

    /// Returns the last ban if it still matters.
    pub(crate) fn last_ban(&self, now: UnixMillis) -> Option<&Ban> {
        match self {
            Self::Banned(ban) if now < ban.until.plus(retention::BANS) => Some(ban),
            Self::Banned(_) | Self::Lifted(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ban(from: u64, until: u64) -> Ban {
        Ban::new(UnixMillis(from), UnixMillis(until), BanOrigin::Limiter).unwrap()
    }

    #[test]
    fn the_newer_ban_that_ends_later_replaces_the_other() {
        let kept = BanNote::Banned(ban(10, 20));
        assert!(kept.gives_way_to(&ban(10, 21)) && kept.gives_way_to(&ban(15, 21)));
        assert!(!kept.gives_way_to(&ban(10, 20)) && !kept.gives_way_to(&ban(12, 19)));
        assert!(!kept.gives_way_to(&ban(5, 21)), "the kept one replaced it");
    }

    #[test]
    fn bans_imposed_before_a_lifting_stay_lifted() {
        let lifted = BanNote::Lifted(UnixMillis(15));
        assert!(!lifted.gives_way_to(&ban(15, 99)));
        assert!(lifted.gives_way_to(&ban(16, 17)));
        assert_eq!(lifted.last_ban(UnixMillis(0)), None);
    }

    #[test]
    fn a_ban_matters_until_a_day_after_its_end() {
        let end = ban(10, 20).until.plus(retention::BANS);
        let note = BanNote::Banned(ban(10, 20));
        assert_eq!(note.last_ban(end.minus(Duration::from_millis(1))), Some(&ban(10, 20)));
        assert_eq!(note.last_ban(end), None);
    }
}
