//! Search index of the pages.

use serde_json::json;

/// Path of the index.
pub(super) const PATH: &str = "/docs/assets/search.json";

/// Returns the title, path and text of each page, as JSON.
pub(super) fn index(pages: &[(String, String)]) -> String {
    let entries: Vec<_> = pages
        .iter()
        .map(|(path, html)| {
            let text = text_of(between(html, "<main", "</main>"));
            json!({ "title": text_of(between(html, "<title", "</title>")), "path": path, "text": text })
        })
        .collect();
    json!(entries).to_string()
}

/// Returns the text between the first tag with this beginning and `end`.
fn between<'a>(html: &'a str, begin: &str, end: &str) -> &'a str {
    let inside = html.split_once(begin).and_then(|(_, rest)| rest.split_once('>'));
    inside.and_then(|(_, rest)| rest.split_once(end)).map_or("", |(inside, _)| inside)
}

/// Returns the text of HTML: without tags, with single spaces.
fn text_of(html: &str) -> String {
    let with_spaces: String =
        html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let text =
        with_spaces.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
