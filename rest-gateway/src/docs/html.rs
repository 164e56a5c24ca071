//! Frame of every page, and text as HTML.

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
