//! Word budgets of the pages: each has a maximum, and so has what one reader needs. Words are counted as by
//! `wc -w`.

use crate::{is_page, paths, read};

/// Pages of a developer of clients.
const CALL_IT: [(&str, usize); 4] =
    [("README.md", 650), ("docs/api.md", 1_880), ("docs/contract.md", 3_960), ("docs/errors.md", 1_550)];
/// Pages of a developer of the service. The decisions are read one at a time.
const CHANGE_IT: [(&str, usize); 5] = [
    ("CONTRIBUTING.md", 1_350),
    ("docs/architecture.md", 1_890),
    ("docs/performance.md", 1_310),
    ("docs/recipes.md", 610),
    ("docs/releasing.md", 240),
];
/// Pages of an operator. Of those about one platform the longest one is counted, because nobody needs both.
const RUN_IT: [(&str, usize); 10] = [
    ("deploy/README.md", 320),
    ("deploy/kubernetes/README.md", 240),
    ("deploy/prometheus/README.md", 1_340),
    ("docs/bulk.md", 350),
    ("docs/limits.md", 760),
    ("docs/operations.md", 1_300),
    ("docs/reliability.md", 390),
    ("docs/running.md", 2_300),
    ("docs/settings.md", 1_340),
    ("docs/troubleshooting.md", 1_230),
];
/// Pages that few need.
const FOR_FEW: [(&str, usize); 2] = [("deploy/systemd/README.md", 170), ("docs/security.md", 330)];
/// Maximum number of words of all pages of one reader.
const OF_ONE_READER: usize = 9_500;

/// Maximum number of words of README and docs/, without the pages about one decision or measurement.
const OF_README_AND_DOCS: usize = 20_000;

/// Maximum number of words of all pages.
const OF_ALL: usize = 23_300;

fn words(page: &str) -> usize {
    read(page).split_whitespace().count()
}

/// Returns every page with its maximum.
fn budgets() -> impl Iterator<Item = (&'static str, usize)> {
    CALL_IT.into_iter().chain(RUN_IT).chain(FOR_FEW).chain(CHANGE_IT)
}

#[test]
fn every_page_has_a_budget() {
    let is_own = |path: &&String| is_page(path) && path.matches('/').count() == 1;
    for page in paths("docs").iter().filter(is_own) {
        assert!(budgets().any(|(known, _)| known == page), "{page} has no budget");
    }
}

#[test]
fn no_page_is_longer_than_its_budget() {
    for (page, max) in budgets() {
        let words = words(page);
        assert!(words <= max, "{page} has {words} words, more than {max}: shorten it, or move what few need");
    }
}

#[test]
fn one_reader_can_read_everything() {
    for pages in [&CALL_IT[..], &RUN_IT, &CHANGE_IT] {
        let words: usize = pages.iter().map(|(page, _)| words(page)).sum();
        assert!(words <= OF_ONE_READER, "{} and the pages beside it have {words} words", pages[0].0);
    }
}

#[test]
fn all_pages_together_are_within_their_budget() {
    let words = |is_counted: fn(&str) -> bool| -> usize {
        budgets().map(|(page, _)| page).filter(|page| is_counted(page)).map(words).sum()
    };
    let (docs, all) = (words(|page| page == "README.md" || page.starts_with("docs/")), words(|_| true));
    assert!(docs <= OF_README_AND_DOCS, "README and docs/ have {docs} words");
    assert!(all <= OF_ALL, "the pages have {all} words");
}
