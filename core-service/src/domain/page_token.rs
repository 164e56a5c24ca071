//! Page tokens of public lists.

use std::fmt;

use super::{PetStatus, Violation};

/// A list that is read page by page. A token is valid in its own list only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// The pets: all, or those with a status.
    Pets(Option<PetStatus>),
    /// The orders.
    Orders,
}

impl List {
    /// Returns the number that stands for the list in tokens.
    const fn number(self) -> u8 {
        match self {
            Self::Pets(None) => 0,
            Self::Pets(Some(status)) => status.number(),
            Self::Orders => 16,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Pets(None)),
            16 => Some(Self::Orders),
            status => PetStatus::from_number(status).map(|status| Self::Pets(Some(status))),
        }
    }
}

/// Token of the next page: its list and where it begins. It holds no secret, and every core understands it,
/// also after a restart.
///
/// Written as 28 hexadecimal digits: version, list, last identifier, and a CRC-32 against damage. Opaque to
/// clients: its form may change between releases, so they must not parse or store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// The list, with its filter.
    pub list: List,
    /// Identifier of the last row of the previous page.
    pub last_id: i64,
}

const VERSION: u8 = 1;
const DIGITS: usize = 2 * (1 + 1 + 8 + 4);

impl PageToken {
    /// Violation for a token that was changed, or that never was a token.
    pub const DAMAGED: Violation = Violation::new("cursor", "must be the unchanged one of the page before");
    /// Violation for a token of a list of the same kind with another filter.
    pub const OF_ANOTHER_STATUS: Violation =
        Violation::new("cursor", "belongs to a list with another status");
    /// Violation for a token of a list of another kind.
    pub const OF_ANOTHER_LIST: Violation = Violation::new("cursor", "belongs to another list");

    /// Parses a token.
    ///
    /// # Errors
    ///
    /// If the token was changed, or never was a token: [`Self::DAMAGED`].
    pub fn parse(written: &str) -> Result<Self, Violation> {
        Self::read(written).ok_or(Self::DAMAGED)
    }

    fn read(written: &str) -> Option<Self> {
        // Lowercase only, so that a token has one written form.
        let digits = written.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if written.len() != DIGITS || !digits {
            return None;
        }
        let [_, _, version, list, id @ .., c1, c2, c3, c4] =
            u128::from_str_radix(written, 16).ok()?.to_be_bytes();
        let last_id = i64::from_be_bytes(id);
        let token = Self { list: List::from_number(list)?, last_id };
        let intact = u32::from_be_bytes([c1, c2, c3, c4]) == token.checksum();
        (version == VERSION && last_id > 0 && intact).then_some(token)
    }

    fn checksum(self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(b"petstore page token"); // so that not any CRC-32 is accepted
        hasher.update(&[VERSION, self.list.number()]);
        hasher.update(&self.last_id.to_be_bytes());
        hasher.finalize()
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION:02x}{:02x}{:016x}{:08x}", self.list.number(), self.last_id, self.checksum())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens() -> impl Strategy<Value = PageToken> {
        let status = proptest::option::of(proptest::sample::select(&PetStatus::ALL[..]));
        let list = prop_oneof![status.prop_map(List::Pets), Just(List::Orders)];
        (list, 1..=i64::MAX).prop_map(|(list, last_id)| PageToken { list, last_id })
    }

    #[test]
    fn the_written_form_never_changes() {
        // The checksum was computed by another implementation (zlib). Clients are reading pages while the
        // service is upgraded: a change here needs a new version number.
        let token = PageToken { list: List::Pets(Some(PetStatus::Pending)), last_id: 42 };
        assert_eq!(token.to_string(), "0102000000000000002a5745c11e");
        let token = PageToken { list: List::Orders, last_id: 42 };
        assert_eq!(token.to_string(), "0110000000000000002ad573abe9");
    }

    #[test]
    fn a_token_that_no_page_could_have_is_refused() {
        for last_id in [0, -1] {
            let token = PageToken { list: List::Pets(None), last_id };
            assert_eq!(PageToken::parse(&token.to_string()), Err(PageToken::DAMAGED));
        }
    }

    proptest! {
        #[test]
        fn a_token_is_parsed_as_written(token in tokens()) {
            prop_assert_eq!(PageToken::parse(&token.to_string()), Ok(token));
        }

        #[test]
        fn any_changed_character_is_refused(token in tokens(), at in 0..DIGITS, wrong in "[ -~é]") {
            let written = token.to_string();
            let mut tampered = written.clone();
            tampered.replace_range(at..=at, &wrong);
            prop_assert_eq!(PageToken::parse(&tampered).is_ok(), tampered == written);
        }

        #[test]
        fn a_token_of_another_length_is_refused(
            token in tokens(), keep in 0..DIGITS, more in "[0-9a-f]{1,9}"
        ) {
            let written = token.to_string();
            prop_assert!(PageToken::parse(&written[..keep]).is_err());
            prop_assert!(PageToken::parse(&(written + &more)).is_err());
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,40}") {
            let _ = PageToken::parse(&text);
        }
    }
}
