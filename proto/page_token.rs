//! Page tokens of public lists: REST's cursors.

use std::fmt;

/// Token of the next page: its list and where it begins. It holds no secret, and every process understands
/// it, also after a restart.
///
/// Written as 28 hexadecimal digits: version, list, last identifier, and a CRC-32 against damage. Opaque to
/// clients: its form may change between releases, so they must not parse or store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// Number of the list and its filter: the upper four bits are those of the list, and the lower four
    /// those of the filter, 0 without one.
    pub list: u8,
    /// Identifier of the last row of the previous page.
    pub last_id: i64,
}

/// Number of filters of a list, with none.
const FILTERS: u8 = 16;

const VERSION: u8 = 1;

impl PageToken {
    /// Fault of a token that was changed, or that never was a token, as text after the parameter's name.
    pub const DAMAGED: &str = "must be the one returned with the previous page, unchanged";

    /// Parses the token of a page of the list. A token of a filtered list is valid in the list without a
    /// filter, which it narrows.
    ///
    /// # Errors
    ///
    /// The fault, as text after the parameter's name.
    pub fn parse(written: &str, list: u8) -> Result<Self, &'static str> {
        let token = Self::read(written).ok_or(Self::DAMAGED)?;
        if token.list / FILTERS != list / FILTERS {
            Err("belongs to another list")
        } else if token.list == list || list.is_multiple_of(FILTERS) {
            Ok(token)
        } else {
            Err("belongs to a list with another filter")
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
        let token = Self { list, last_id };
        let intact = u32::from_be_bytes([c1, c2, c3, c4]) == token.checksum();
        (version == VERSION && last_id > 0 && intact).then_some(token)
    }

    fn checksum(self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(b"petstore page token"); // so that a plain CRC-32 does not match
        hasher.update(&[VERSION, self.list]);
        hasher.update(&self.last_id.to_be_bytes());
        hasher.finalize()
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION:02x}{:02x}{:016x}{:08x}", self.list, self.last_id, self.checksum())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens() -> impl Strategy<Value = PageToken> {
        (any::<u8>(), 1..=i64::MAX).prop_map(|(list, last_id)| PageToken { list, last_id })
    }

    fn parse(written: &str) -> Result<PageToken, &'static str> {
        PageToken::read(written).ok_or(PageToken::DAMAGED)
    }

    #[test]
    fn a_token_is_valid_in_its_own_list_only() {
        let (filter, list) = (Err("belongs to a list with another filter"), Err("belongs to another list"));
        for (of, asked, verdict) in [
            (0x00, 0x00, Ok(())),
            (0x03, 0x03, Ok(())),
            (0x03, 0x00, Ok(())),
            (0x00, 0x03, filter),
            (0x03, 0x01, filter),
            (0x10, 0x10, Ok(())),
            (0x1F, 0x10, Ok(())),
            (0x10, 0x00, list),
            (0x10, 0x03, list),
            (0x03, 0x10, list),
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
        let token = PageToken { list: 0x02, last_id: 42 };
        assert_eq!(token.to_string(), "0102000000000000002a5745c11e");
        let token = PageToken { list: 0x10, last_id: 42 };
        assert_eq!(token.to_string(), "0110000000000000002ad573abe9");
    }

    #[test]
    fn a_token_that_no_page_could_have_is_refused() {
        for last_id in [0, -1] {
            let token = PageToken { list: 0, last_id };
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
