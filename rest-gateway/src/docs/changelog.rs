//! The page that shows the changelog.

use pulldown_cmark::{Event, Parser, Tag, TagEnd, html::push_html};

use super::html::HtmlPage;

/// Path of the page.
pub(super) const PATH: &str = "/docs/changelog";

const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

/// Returns the page. Links are omitted, since they lead to files that are not served here.
pub(super) fn page() -> String {
    let is_link = |event: &Event| matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link));
    let mut html = String::new();
    push_html(&mut html, Parser::new(CHANGELOG).filter(|event| !is_link(event)));
    let main = format!(
        "    <main id=\"content\" class=\"page changelog\" tabindex=\"-1\">\n      \
         <p class=\"trail\"><a href=\"/docs\">Guide</a></p>\n{html}    </main>"
    );
    HtmlPage { title: "Changelog", description: "What changed in each version", main: &main }.render()
}
