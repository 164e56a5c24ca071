//! The pages about error codes: one per code, and the list of them.

use std::fmt::Write as _;

use petstore_proto::{Retry, v1::ErrorReason};
use petstore_telemetry::traces::grpc;
use serde_json::Value;

use super::html::{HtmlPage, escaped, prose};
use crate::error::page_path;

/// Path of the list of all codes.
pub(super) const INDEX_PATH: &str = "/docs/errors";

/// Returns the page about one code. A code that only gRPC has is without an example of an Error body.
pub(super) fn error_page(reason: ErrorReason, example: Option<&Value>) -> String {
    let code = reason.code();
    let about = explanation(reason);
    let main = format!(
        include_str!("assets/error.html"),
        code = code.name,
        http = code.http, // such as `429 Too Many Requests`
        grpc = grpc_status(reason),
        who_acts = about.who_acts(),
        retry = prose(retry_sentence(code.retry)),
        meaning = prose(about.meaning),
        remedy = prose(about.remedy),
        operator = for_operators(about.operator),
        example = example.map(example_section).unwrap_or_default(),
    );
    HtmlPage { title: code.name, description: "What this error code means, and what to do", main: &main }
        .render()
}

/// Returns the list of all codes, by status.
pub(super) fn index() -> String {
    let mut rows = String::new();
    for reason in by_status() {
        let code = reason.code();
        let _ = write!(
            rows, // a write to a String cannot fail
            include_str!("assets/error-row.html"),
            status = code.http.as_u16(),
            path = page_path(reason),
            code = code.name,
            grpc = grpc_status(reason),
            meaning = prose(first_sentence(explanation(reason).meaning)),
        );
    }
    let main = include_str!("assets/errors.html").replace("{rows}", &rows);
    HtmlPage {
        title: "Error codes",
        description: "Every error code of the Animal Store Service",
        main: &main,
    }
    .render()
}

fn example_section(error: &Value) -> String {
    format!(include_str!("assets/error-example.html"), example = escaped(&format!("{error:#}")))
}

/// Returns a paragraph of HTML, or nothing if the operator has nothing to do.
fn for_operators(operator: &str) -> String {
    if operator.is_empty() {
        return String::new();
    }
    format!("        <p>For the operator: {}</p>\n", prose(operator))
}

/// Returns the gRPC status as HTML.
fn grpc_status(reason: ErrorReason) -> String {
    grpc_name(reason).map_or_else(|| "–".to_owned(), |code| format!("<code>{code}</code>"))
}

/// Returns the name of a code's gRPC status, such as `NOT_FOUND`.
pub(super) fn grpc_name(reason: ErrorReason) -> Option<&'static str> {
    reason.code().grpc.map(|code| grpc::status(code.into()))
}

/// Returns every reason by HTTP status, and within a status in the order of the enum.
pub(super) fn by_status() -> Vec<ErrorReason> {
    let mut reasons: Vec<_> = ErrorReason::all().collect();
    reasons.sort_by_key(|reason| reason.code().http);
    reasons
}

/// Returns the advice on repeating a request as a sentence. `` `…` `` is code.
pub(super) const fn retry_sentence(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => "Not without a change: the same request is refused again.",
        Retry::Backoff => "Yes, a few times, with exponential backoff.",
        Retry::After => "Yes, after the seconds in `Retry-After`, and then with exponential backoff.",
    }
}

/// Explanation of a code for people. `` `…` `` is code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Explanation {
    pub(super) meaning: &'static str,
    /// Advice for the client.
    pub(super) remedy: &'static str,
    /// Advice for the operator; empty if the client alone has to act.
    pub(super) operator: &'static str,
}

impl Explanation {
    /// Returns the party that has to act.
    pub(super) const fn who_acts(&self) -> &'static str {
        if self.operator.is_empty() { "the client" } else { "the operator; the client waits" }
    }
}

/// Returns the section of `docs/errors.md` about a code.
pub(super) fn explanation(reason: ErrorReason) -> Explanation {
    static GUIDE: &str = include_str!("../../../docs/errors.md");
    let code = reason.code().name;
    let sections = GUIDE.split("\n## ").skip(1);
    let own = sections.into_iter().find(|section| section.split(' ').next() == Some(code));
    let lines = own.unwrap_or_default().lines().skip(1).filter(|line| !line.is_empty());
    lines.fold(Explanation::default(), |mut explanation, line| {
        if let Some(remedy) = line.strip_prefix("- What to do: ") {
            explanation.remedy = remedy;
        } else if let Some(operator) = line.strip_prefix("- For the operator: ") {
            explanation.operator = operator;
        } else if explanation.meaning.is_empty() {
            explanation.meaning = line;
        }
        explanation
    })
}

/// Returns the text up to the first full stop that ends a sentence.
pub(super) fn first_sentence(text: &str) -> &str {
    text.find(". ").and_then(|end| text.get(..=end)).unwrap_or(text)
}
