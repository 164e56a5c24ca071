//! Checks of the first words of doc comments, which should be a verb or a noun.

use std::path::Path;

use crate::{files, source::CRATES};

/// First words that doc comments must not have, with the words to write instead.
const FRAGMENTS: [(&[&str], &str); 6] = [
    (&["What", "Who", "Whoever", "Whose", "Those", "The same"], "a noun, or a verb such as Returns"),
    (&["Whether"], "`true` if"),
    (&["How", "So many", "So much", "So long"], "Number of, Maximum, Timeout, with the unit"),
    (&["When", "Whenever", "Until", "Since"], "Time at which, Time after which"),
    (&["Where", "Wherever"], "Address of, Location of"),
    (&["Why", "Of", "As"], "Reason, or a full sentence"),
];

/// Returns the pattern that `text` matches, with the words to write instead.
fn found<'a>(
    patterns: &'a [(&[&'a str], &'a str)],
    is_in: impl Fn(&str) -> bool,
) -> Option<(&'a str, &'a str)> {
    let mut all = patterns.iter().flat_map(|(words, instead)| words.iter().map(|word| (*word, *instead)));
    all.find(|(word, _)| is_in(word))
}

/// Returns `true` if the text begins with these words, and they end there.
fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

/// Returns the sources of the product and its tests whose comments begin with `//`. Files of others are left
/// out.
fn sources() -> impl Iterator<Item = (String, String)> {
    let is_source = |path: &str| ["rs", "proto", "mjs"].contains(&extension(path));
    let folders = CRATES.into_iter().chain(["proto/petstore"]);
    folders.flat_map(files).filter(move |(path, _)| is_source(path))
}

/// Returns the comment on a line, if it has one, without the marks of a doc comment.
fn comment(line: &str) -> Option<&str> {
    let (code, comment) = line.split_once("//")?;
    let is_in_text = code.matches('"').count() % 2 == 1 || code.ends_with(':');
    (!is_in_text).then(|| comment.trim_start_matches(['/', '!']).trim_start())
}

#[test]
fn no_doc_comment_begins_with_a_fragment() {
    let (mut faults, mut checked) = (Vec::new(), 0);
    for (path, text) in sources() {
        let marks: &[&str] = if extension(&path) == "proto" { &["//"] } else { &["///", "//!"] };
        let mut is_within = false;
        for (number, line) in (1..).zip(text.lines()) {
            let is_doc = marks.iter().any(|mark| line.trim_start().starts_with(mark));
            if let Some(comment) = comment(line).filter(|_| is_doc && !is_within) {
                checked += 1;
                if let Some((words, instead)) = found(&FRAGMENTS, |words| begins_with(comment, words)) {
                    faults.push(format!("{path}:{number} begins with {words}; write: {instead}"));
                }
            }
            is_within = is_doc;
        }
    }
    assert!(checked > 3_000, "only {checked} doc comments were found");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_fragment_is_found() {
    for bad in ["Whether it is open.", "So many of them.", "What: a list."] {
        assert!(found(&FRAGMENTS, |words| begins_with(bad, words)).is_some(), "{bad}");
    }
    for good in ["Offset of the page.", "Asks the core.", "Whatsoever it is", "Tells the gateway."] {
        assert_eq!(found(&FRAGMENTS, |words| begins_with(good, words)), None, "{good}");
    }
    assert_eq!(comment("let url = \"https://a\";"), None);
    assert_eq!(comment("    /// Returns it."), Some("Returns it."));
}
