//! The frame of every page, and text as HTML.

/// A page before it is put into the frame.
#[derive(Debug)]
pub(super) struct HtmlPage<'a> {
    /// Plain text, for the tab.
    pub(super) title: &'a str,
    /// Plain text: what the page is about, in a line.
    pub(super) description: &'a str,
    /// HTML: what stands in `<main>`, and the navigation beside it.
    pub(super) main: &'a str,
}

impl HtmlPage<'_> {
    /// The whole HTML document.
    pub(super) fn render(&self) -> String {
        include_str!("assets/frame.html")
            .replace("{title}", &escaped(self.title))
            .replace("{description}", &escaped(self.description))
            .replace("{main}", self.main)
    }
}

/// Text for an element or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text in which `` `…` `` is code, as HTML.
pub(super) fn prose(text: &str) -> String {
    escaped(text)
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}
