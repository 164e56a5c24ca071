//! Short texts written by operators and shown to others.

use petstore_api_key::ApiKey;

use super::Violation;

/// Rule for text that may be a key or a token by mistake (docs/contract.md, 5.12).
pub(super) const NO_KEY: &str = "must not contain an API key or an operator's token";

/// Returns the text if it is one line of at most `max_chars` characters, not blank, and without key material.
/// `length_rule` states the length in words.
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
        refused(NO_KEY)
    } else {
        Ok(raw.to_owned())
    }
}
