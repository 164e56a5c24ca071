//! Page tokens of operators' lists.

use std::fmt::Debug;

use petstore_core::violations::Violation;

/// Page tokens of an operators' list with its filters. A token is valid only in the same list with the same
/// filters.
#[derive(Clone, Debug)]
pub(crate) struct PageTokens {
    /// Letter that no other list has.
    list: char,
    filters: String,
}

impl PageTokens {
    /// Returns the tokens of the list with these filters.
    pub(crate) fn new(list: char, filters: &impl Debug) -> Self {
        Self { list, filters: format!("{filters:?}") }
    }

    /// Violation for a token that was changed, or belongs to another list or other filters.
    pub(crate) const FOREIGN: Violation = Violation::new(
        "pageToken",
        "must be the one returned with the previous page, unchanged, for the same filters",
    );

    /// Returns the token of the page that follows the row with this position. It is opaque to clients, like
    /// `petstore_proto::PageToken`.
    pub(crate) fn token(&self, last: &str) -> String {
        format!("{}.{last}.{:08x}", self.list, self.checksum(last))
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
            let (last, checksum) = token.strip_prefix(self.list)?.strip_prefix('.')?.rsplit_once('.')?;
            (checksum == format!("{:08x}", self.checksum(last))).then_some(last)
        };
        read().map(Some).ok_or(Self::FOREIGN)
    }

    fn checksum(&self, last: &str) -> u32 {
        let Self { list, filters } = self;
        crc32fast::hash(format!("petstore admin page {list}{last} {filters}").as_bytes())
    }
}

/// Returns the token of an operators' list that follows the row at the position, and the position that is
/// read from the other token.
///
/// # Errors
///
/// If the other token is not one of the list with these filters.
#[cfg(feature = "fuzzing")]
pub fn fuzz_page_token<'a>(
    list: char,
    filters: &str,
    position: &str,
    token: &'a str,
) -> (String, Result<Option<&'a str>, Violation>) {
    let tokens = PageTokens::new(list, &filters);
    (tokens.token(position), tokens.position(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_accepted_only_unchanged_by_its_own_list_and_filters() {
        let keys = PageTokens::new('k', &"shop");
        let token = keys.token("7.8");
        assert_eq!(keys.position(&token), Ok(Some("7.8")));
        assert_eq!(keys.position(""), Ok(None));
        for damaged in [&token[1..], "k", "k.7", &token.replace('7', "6"), &format!("{token}0")] {
            assert_eq!(keys.position(damaged), Err(PageTokens::FOREIGN), "{damaged}");
        }
        for other in [PageTokens::new('b', &"shop"), PageTokens::new('k', &""), PageTokens::new('k', &())] {
            assert_eq!(other.position(&token), Err(PageTokens::FOREIGN), "{other:?}");
        }
    }
}
