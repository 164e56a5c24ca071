//! The pages about error codes: one per code, and the list of them.

use std::fmt::Write as _;

use petstore_proto::v1::ErrorReason;
use serde_json::Value;

use super::html::{HtmlPage, escaped, prose};
use crate::error::codes::{self, explanation, row_of};

/// Path of the list of all codes.
pub(super) const INDEX_PATH: &str = "/docs/errors";

/// Returns the page about one code. A code that only gRPC has is without an example of an Error body.
pub(super) fn error_page(reason: ErrorReason, example: Option<&Value>) -> String {
    let code = codes::code(reason);
    let row = row_of(reason);
    let about = explanation(reason);
    let main = format!(
        include_str!("assets/error.html"),
        code = code,
        http = row.status, // such as `429 Too Many Requests`
        grpc = grpc_status(reason),
        who_acts = about.who_acts(),
        retry = prose(row.retry.sentence()),
        meaning = prose(about.meaning),
        remedy = prose(about.remedy),
        operator = for_operators(about.operator),
        example = example.map(example_section).unwrap_or_default(),
    );
    HtmlPage { title: code, description: "What this error code means, and what to do", main: &main }.render()
}

/// Returns the list of all codes, by status.
pub(super) fn index() -> String {
    let mut reasons: Vec<_> = codes::all().collect();
    // A stable sort: within a status, in the order of the enum.
    reasons.sort_by_key(|&reason| row_of(reason).status);
    let mut rows = String::new();
    for reason in reasons {
        let _ = writeln!(
            // a write to a String cannot fail
            rows,
            "<tr><td data-label=\"HTTP\">{status}</td><th scope=\"row\"><a \
             href=\"{path}\"><code>{code}</code></a></th> <td \
             data-label=\"gRPC\">{grpc}</td><td>{meaning}</td></tr>",
            status = row_of(reason).status.as_u16(),
            path = codes::page_path(reason),
            code = codes::code(reason),
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
    row_of(reason).grpc.map_or_else(|| "–".to_owned(), |code| format!("<code>{code}</code>"))
}

/// Returns the text up to the first full stop that ends a sentence.
pub(super) fn first_sentence(text: &str) -> &str {
    text.find(". ").and_then(|end| text.get(..=end)).unwrap_or(text)
}
