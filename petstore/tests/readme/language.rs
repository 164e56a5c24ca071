//! Checks of plain English in comments and pages. A list of patterns cannot judge a text, but it keeps out
//! idioms.

use std::path::Path;

use crate::{files, pages, source::CRATES};

/// First words that doc comments must not have, with the words to write instead.
const FRAGMENTS: [(&[&str], &str); 6] = [
    (&["What", "Who", "Whoever", "Whose", "Those", "The same"], "a noun, or a verb such as Returns"),
    (&["Whether"], "`true` if"),
    (&["How", "So many", "So much", "So long"], "Number of, Maximum, Timeout, with the unit"),
    (&["When", "Whenever", "Until", "Since"], "Time at which, Time after which"),
    (&["Where", "Wherever"], "Address of, Location of"),
    (&["Why", "Of", "As"], "Reason, or a full sentence"),
];

/// Words that comments and pages must not have, with the words to write instead.
const IDIOMS: [(&[&str], &str); 3] = [
    (&["tell", "tells", "telling", "told"], "return, report, show, log, notify, distinguish"),
    (&["nobody", "nobody's", "whoever"], "the caller, no client, another user"),
    (&["so many", "so much", "so long"], "a number, a bound"),
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

/// Returns `true` if these words stand anywhere in the text, in any case.
fn contains_words(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    let starts = text.match_indices(words).map(|(start, _)| start);
    starts.into_iter().any(|start| {
        !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && begins_with(&text[start..], words)
    })
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
fn no_comment_and_no_page_has_an_idiom_where_there_is_a_plain_word() {
    let mut faults = Vec::new();
    let mut check = |path: &str, number: usize, text: &str| {
        if let Some((words, instead)) = found(&IDIOMS, |words| contains_words(text, words)) {
            faults.push(format!("{path}:{number} has {words:?}; write: {instead}"));
        }
    };
    for (path, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            check(&path, number, comment(line).unwrap_or_default());
        }
    }
    for (path, text) in pages() {
        for (number, line) in (1..).zip(text.lines()) {
            check(&path, number, line);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_fragment_and_an_idiom_are_found() {
    for bad in ["Whether it is open.", "So many of them.", "What: a list."] {
        assert!(found(&FRAGMENTS, |words| begins_with(bad, words)).is_some(), "{bad}");
    }
    for bad in ["The gateway tells it.", "Nobody reads this", "kept so\u{20}long"] {
        assert!(found(&IDIOMS, |words| contains_words(bad, words)).is_some(), "{bad}");
    }
    for good in ["Offset of the page.", "Asks the core.", "intelligible", "so manyfold"] {
        assert_eq!(found(&FRAGMENTS, |words| begins_with(good, words)), None, "{good}");
        assert_eq!(found(&IDIOMS, |words| contains_words(good, words)), None, "{good}");
    }
    assert_eq!(comment("let url = \"https://a\";"), None);
    assert_eq!(comment("    /// Returns it."), Some("Returns it."));
}
