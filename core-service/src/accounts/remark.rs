//! Short texts written by operators and shown to others.

use petstore_caller::api_key::ApiKey;

use crate::violations::Violation;

/// Rule for text that may be a key or a token by mistake (docs/contract.md, 5.12).
pub(super) const NO_KEY: &str = "must not contain an API key or an operator's token";

/// Characters that show nothing, or that change the order in which others are shown: those that Unicode says
/// to ignore (`Default_Ignorable_Code_Point`), and blanks that are no space. With them two texts look alike,
/// or a text is not what it looks like. The first and the last of each range.
#[rustfmt::skip]
const INVISIBLE: [[u32; 2]; 18] = [
    [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180b, 0x180f],
    [0x200b, 0x200f], [0x2028, 0x202e], [0x2060, 0x206f], [0x2800, 0x2800], [0x3164, 0x3164],
    [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0x1bca0, 0x1bca3],
    [0x1d173, 0x1d17a], [0xe0000, 0xe0fff],
];

fn is_invisible(char: char) -> bool {
    INVISIBLE.iter().any(|[first, last]| (*first..=*last).contains(&u32::from(char)))
}

/// One line that an operator wrote: the label of a key, or the reason of a ban or a suspension. It is not
/// blank, and has no control characters, invisible ones, API keys and operator tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark(String);

impl Remark {
    /// Parses the label of a key: up to 64 characters. Returns `None` if the text is empty.
    ///
    /// # Errors
    ///
    /// If the label breaks a rule. The error names the rule.
    pub fn label(raw: &str) -> Result<Option<Self>, Violation> {
        Self::parse("label", raw, 64, "must be at most 64 characters long and not blank")
    }

    /// Parses a reason: up to 200 characters. Returns `None` if the text is empty.
    ///
    /// # Errors
    ///
    /// If the reason breaks a rule. The error names the rule.
    pub fn reason(raw: &str) -> Result<Option<Self>, Violation> {
        Self::parse("reason", raw, 200, "must be at most 200 characters long and not blank")
    }

    fn parse(
        field: &'static str,
        raw: &str,
        max_chars: usize,
        length_rule: &'static str,
    ) -> Result<Option<Self>, Violation> {
        if raw.is_empty() {
            return Ok(None);
        }
        let check = |holds, rule| Violation::check(holds, field, rule);
        let visible = "must not contain invisible characters, or ones that change the direction of text";
        check(!raw.trim().is_empty() && raw.chars().count() <= max_chars, length_rule)?;
        check(!raw.chars().any(char::is_control), "must not contain control characters")?;
        check(!raw.chars().any(is_invisible), visible)?;
        check(!ApiKey::begins_in(raw), NO_KEY)?;
        Ok(Some(Self(raw.to_owned())))
    }

    /// Returns a text read from the database, without checking it.
    pub(crate) const fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_one_short_line_without_a_key() {
        for right in
            ["x", "open invoice – write to sales@example.com", &"ä".repeat(64), "e\u{301} 猫　犬 שלום"]
        {
            assert_eq!(Remark::label(right).unwrap().unwrap().as_str(), right);
            assert_eq!(Remark::reason(right).unwrap().unwrap().as_str(), right);
        }
        assert_eq!(Remark::reason("").unwrap(), None);
        for wrong in [" ", "a\nb", "a\u{7f}", &"x".repeat(201), "see pet_live_0", "pet_test_x"] {
            assert_eq!(Remark::label(wrong).unwrap_err().field, "label", "{wrong:?}");
            assert_eq!(Remark::reason(wrong).unwrap_err().field, "reason", "{wrong:?}");
        }
        for hidden in
            "\u{ad}\u{200b}\u{200e}\u{202e}\u{2066}\u{2028}\u{2800}\u{3164}\u{fe0f}\u{feff}\u{e0041}".chars()
        {
            let text = format!("in{hidden}voice");
            let rule = "must not contain invisible characters, or ones that change the direction of text";
            assert_eq!(Remark::label(&text).unwrap_err().rule, rule, "{text:?}");
            assert_eq!(Remark::reason(&text).unwrap_err().rule, rule, "{text:?}");
        }
        assert!(Remark::label(&"x".repeat(65)).is_err() && Remark::reason(&"x".repeat(200)).is_ok());
    }
}
