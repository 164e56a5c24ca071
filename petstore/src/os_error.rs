//! Errors of the operating system, as text for people.

use std::io;

/// Returns the error in the form of this program's messages, without its number: `address already in use`.
pub(crate) fn reason(error: &io::Error) -> String {
    let said = error.to_string();
    let said = without_number(&said);
    let mut letters = said.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns the text without the ` (os error 2)` that Rust adds to the message of the operating system.
pub(crate) fn without_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_error_is_not_shown() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(without_number("a: B (os error 2): C (os error 111)"), "a: B: C");
        assert_eq!(without_number("a (os error"), "a (os error");
    }
}
