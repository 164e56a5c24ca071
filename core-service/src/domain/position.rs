//! Page tokens of operators' lists.

use std::fmt::Debug;

use super::Violation;

/// A list for operators that is read page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminList {
    Accounts,
    Keys,
    Bans,
    AuditEvents,
    Operators,
}

/// Writer and reader of the page tokens of a list with its filters. A token is valid only in the same list
/// with the same filters.
#[derive(Clone, Debug)]
pub(crate) struct PageTokens {
    list: AdminList,
    filters: String,
}

impl AdminList {
    /// Returns the tokens of the list with these filters.
    pub(crate) fn with(self, filters: &impl Debug) -> PageTokens {
        PageTokens { list: self, filters: format!("{filters:?}") }
    }

    /// Returns the letter that stands for the list in tokens.
    const fn letter(self) -> char {
        match self {
            Self::Accounts => 'a',
            Self::Keys => 'k',
            Self::Bans => 'b',
            Self::AuditEvents => 'e',
            Self::Operators => 'o',
        }
    }
}

impl PageTokens {
    /// Violation for a token that was changed, or belongs to another list or other filters.
    pub(crate) const FOREIGN: Violation =
        Violation::new("page_token", "must be the unchanged one of the page before, with the same filters");

    /// Returns the token of the page that follows the row with this position. It is opaque to clients, like
    /// [`PageToken`](petstore_api_key::PageToken).
    pub(crate) fn token(&self, last: &str) -> String {
        format!("{}.{last}.{:08x}", self.list.letter(), self.checksum(last))
    }

    /// Returns the position in a token, or `None` for the first page, whose token is empty.
    ///
    /// # Errors
    ///
    /// If the token is another list's or was changed: [`Self::FOREIGN`].
    pub(crate) fn position<'a>(&self, token: &'a str) -> Result<Option<&'a str>, Violation> {
        if token.is_empty() {
            return Ok(None);
        }
        let read = || {
            let (last, checksum) =
                token.strip_prefix(self.list.letter())?.strip_prefix('.')?.rsplit_once('.')?;
            (checksum == format!("{:08x}", self.checksum(last))).then_some(last)
        };
        read().map(Some).ok_or(Self::FOREIGN)
    }

    fn checksum(&self, last: &str) -> u32 {
        let Self { list, filters } = self;
        crc32fast::hash(format!("petstore admin page {}{last} {filters}", list.letter()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_accepted_only_unchanged_by_its_own_list_and_filters() {
        let keys = AdminList::Keys.with(&"shop");
        let token = keys.token("7.8");
        assert_eq!(keys.position(&token), Ok(Some("7.8")));
        assert_eq!(keys.position(""), Ok(None));
        for damaged in [&token[1..], "k", "k.7", &token.replace('7', "6"), &format!("{token}0")] {
            assert_eq!(keys.position(damaged), Err(PageTokens::FOREIGN), "{damaged}");
        }
        for other in [AdminList::Bans.with(&"shop"), AdminList::Keys.with(&""), AdminList::Keys.with(&())] {
            assert_eq!(other.position(&token), Err(PageTokens::FOREIGN), "{other:?}");
        }
    }
}
