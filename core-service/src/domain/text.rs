//! Short texts that operators write and others read.

use petstore_api_key::ApiKey;

use super::Violation;

/// The text, if it is one line of up to so many characters, not blank, and without API keys and operator
/// tokens. `length_rule` says the length in words.
pub(super) fn parse_line(
    field: &'static str,
    raw: &str,
    max_chars: usize,
    length_rule: &'static str,
) -> Result<String, Violation> {
    let refused = |rule| Err(Violation::new(field, rule));
    if raw.trim().is_empty() || raw.chars().count() > max_chars {
        refused(length_rule)
    } else if raw.chars().any(char::is_control) {
        refused("must not contain control characters")
    } else if ApiKey::begins_in(raw) {
        refused("must not contain an API key")
    } else {
        Ok(raw.to_owned())
    }
}
