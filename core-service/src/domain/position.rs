//! Where the next page of an operator's list begins.

use super::{PageToken, Violation};

/// A list of operators that is walked page by page. A token leads on in its own list only; its filters are
/// not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminList {
    Accounts,
    Keys,
    Bans,
    AuditEvents,
    Operators,
}

impl AdminList {
    /// The letter that stands for the list in tokens.
    const fn letter(self) -> char {
        match self {
            Self::Accounts => 'a',
            Self::Keys => 'k',
            Self::Bans => 'b',
            Self::AuditEvents => 'e',
            Self::Operators => 'o',
        }
    }

    /// The token of the page that follows the row with this position. Opaque to clients, like [`PageToken`].
    pub(crate) fn token(self, last: &str) -> String {
        format!("{}.{last}.{:08x}", self.letter(), self.checksum(last))
    }

    /// The position in a token; `None` for the first page, whose token is empty.
    ///
    /// # Errors
    ///
    /// [`PageToken::DAMAGED`].
    pub(crate) fn position(self, token: &str) -> Result<Option<&str>, Violation> {
        if token.is_empty() {
            return Ok(None);
        }
        let read = || {
            let (last, checksum) = token.strip_prefix(self.letter())?.strip_prefix('.')?.rsplit_once('.')?;
            (checksum == format!("{:08x}", self.checksum(last))).then_some(last)
        };
        read().map(Some).ok_or(PageToken::DAMAGED)
    }

    fn checksum(self, last: &str) -> u32 {
        crc32fast::hash(format!("petstore admin page {}{last}", self.letter()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_by_its_own_list_only_and_not_when_it_was_changed() {
        let token = AdminList::Keys.token("7.8");
        assert_eq!(AdminList::Keys.position(&token), Ok(Some("7.8")));
        assert_eq!(AdminList::Keys.position(""), Ok(None));
        for damaged in [&token[1..], "k", "k.7", &token.replace('7', "6"), &format!("{token}0")] {
            assert_eq!(AdminList::Keys.position(damaged), Err(PageToken::DAMAGED), "{damaged}");
        }
        assert_eq!(AdminList::Bans.position(&token), Err(PageToken::DAMAGED));
    }
}
