//! Page tokens of public lists: REST's cursors.

use std::fmt;

/// List that is read page by page. A token is valid in its own list only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Pets with one status, by its number in `petstore.v1.PetStatus`; 0 for pets with any.
    Pets(u8),
    /// Orders.
    Orders,
}

impl List {
    /// Returns the number that stands for the list in tokens.
    const fn number(self) -> u8 {
        match self {
            Self::Pets(status) => status,
            Self::Orders => 16,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            0..=3 => Some(Self::Pets(number)), // 3 is the highest number of a status
            16 => Some(Self::Orders),
            _ => None,
        }
    }
}

/// Token of the next page: its list and where it begins. It holds no secret, and every process understands
/// it, also after a restart.
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

impl PageToken {
    /// Fault of a token that was changed, or that never was a token, as text after the parameter's name.
    pub const DAMAGED: &str = "must be the one returned with the previous page, unchanged";

    /// Parses the token of a page of the list. A token of pets with one status is valid in the list of all
    /// pets, which it narrows to that status.
    ///
    /// # Errors
    ///
    /// The fault, as text after the parameter's name.
    pub fn parse(written: &str, list: List) -> Result<Self, &'static str> {
        let token = Self::read(written).ok_or(Self::DAMAGED)?;
        match (list, token.list) {
            (List::Pets(0), List::Pets(_)) | (List::Orders, List::Orders) => Ok(token),
            (List::Pets(asked), List::Pets(status)) if asked == status => Ok(token),
            (List::Pets(_), List::Pets(_)) => Err("belongs to a list with another status"),
            (List::Pets(_), List::Orders) | (List::Orders, List::Pets(_)) => Err("belongs to another list"),
        }
    }

    fn read(written: &str) -> Option<Self> {
        // Lowercase only, so that a token has one written form.
        let digits = written.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if written.len() != 2 * (1 + 1 + 8 + 4) || !digits {
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
        hasher.update(b"petstore page token"); // so that a plain CRC-32 does not match
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
        let list = prop_oneof![(0_u8..=3).prop_map(List::Pets), Just(List::Orders)];
        (list, 1..=i64::MAX).prop_map(|(list, last_id)| PageToken { list, last_id })
    }

    fn parse(written: &str) -> Result<PageToken, &'static str> {
        PageToken::read(written).ok_or(PageToken::DAMAGED)
    }

    #[test]
    fn a_token_is_valid_in_its_own_list_only() {
        let [all, sold, orders] = [List::Pets(0), List::Pets(3), List::Orders];
        let (status, list) = (Err("belongs to a list with another status"), Err("belongs to another list"));
        for (of, asked, verdict) in [
            (all, all, Ok(())),
            (sold, sold, Ok(())),
            (sold, all, Ok(())),
            (all, sold, status),
            (sold, List::Pets(1), status),
            (orders, orders, Ok(())),
            (orders, all, list),
            (orders, sold, list),
            (sold, orders, list),
        ] {
            let token = PageToken { list: of, last_id: 7 };
            assert_eq!(PageToken::parse(&token.to_string(), asked), verdict.map(|()| token));
            assert_eq!(PageToken::parse("damaged", asked), Err(PageToken::DAMAGED));
        }
    }

    #[test]
    fn the_written_form_never_changes() {
        // The checksum was computed by another implementation (zlib). Clients are reading pages while the
        // service is upgraded: a change here needs a new version number.
        let token = PageToken { list: List::Pets(2), last_id: 42 };
        assert_eq!(token.to_string(), "0102000000000000002a5745c11e");
        let token = PageToken { list: List::Orders, last_id: 42 };
        assert_eq!(token.to_string(), "0110000000000000002ad573abe9");
    }

    #[test]
    fn a_token_that_no_page_could_have_is_refused() {
        for last_id in [0, -1] {
            let token = PageToken { list: List::Pets(0), last_id };
            assert_eq!(parse(&token.to_string()), Err(PageToken::DAMAGED));
        }
    }

    proptest! {
        #[test]
        fn a_token_is_parsed_as_written(token in tokens()) {
            prop_assert_eq!(parse(&token.to_string()), Ok(token));
        }

        #[test]
        fn any_changed_character_is_refused(
            token in tokens(), at in 0..28_usize, wrong in "[ -~é]"
        ) {
            let written = token.to_string();
            let mut tampered = written.clone();
            tampered.replace_range(at..=at, &wrong);
            prop_assert_eq!(parse(&tampered).is_ok(), tampered == written);
        }

        #[test]
        fn a_token_of_another_length_is_refused(
            token in tokens(), keep in 0..28_usize, more in "[0-9a-f]{1,9}"
        ) {
            let written = token.to_string();
            prop_assert!(parse(&written[..keep]).is_err());
            prop_assert!(parse(&(written + &more)).is_err());
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
