//! Frame of every page, text as HTML, and HTML as text for the search index.

use serde_json::json;

/// Page before it is put into the frame.
#[derive(Debug)]
pub(super) struct HtmlPage<'a> {
    /// Title for the tab, as plain text.
    pub(super) title: &'a str,
    /// Summary of the page in one line, as plain text.
    pub(super) description: &'a str,
    /// Content of `<main>`, and the navigation beside it, as HTML.
    pub(super) main: &'a str,
}

impl HtmlPage<'_> {
    /// Returns the whole HTML document.
    pub(super) fn render(&self) -> String {
        include_str!("assets/frame.html")
            .replace("{title}", &escaped(self.title))
            .replace("{description}", &escaped(self.description))
            .replace("{main}", self.main)
    }
}

/// Returns the text, escaped for an element or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the text as HTML, in which `` `…` `` is code.
pub(super) fn prose(text: &str) -> String {
    escaped(text)
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

/// Returns the title, path, kind and text of each page and of each operation on it, as JSON.
pub(super) fn search_index(pages: impl Iterator<Item = (String, String)>) -> String {
    let mut entries = Vec::new();
    for (path, html) in pages {
        let mut parts = between(&html, "<main", "</main>").split("<section class=\"operation\" id=\"");
        let title = text_of(between(&html, "<title", "</title>"));
        let text = parts.next().map(text_of);
        entries.push(json!({ "title": title, "path": path, "kind": "page", "text": text }));
        for (id, operation) in parts.filter_map(|part| part.split_once('"')) {
            let (title, path) = (text_of(between(operation, "<h2", "</h2>")), format!("{path}#{id}"));
            let text = operation.split("<ul").next().map(|it| format!("{id} {}", text_of(it)));
            entries.push(json!({ "title": title, "path": path, "kind": "operation", "text": text }));
        }
    }
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
