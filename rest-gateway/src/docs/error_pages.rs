//! The pages about error codes: one per code, and the list of them.

use std::fmt::Write as _;

use petstore_proto::v1::ErrorReason;

use super::html::{HtmlPage, escaped, prose};
use crate::error::{
    codes::{self, explain},
    examples::example,
};

/// Where the list of all codes is.
pub(super) const INDEX_PATH: &str = "/docs/errors";

/// The page about one code.
pub(super) fn error_page(reason: ErrorReason) -> String {
    let code = codes::code(reason);
    let about = explain(reason);
    let main = format!(
        include_str!("assets/error.html"),
        code = code,
        http = about.status, // such as `429 Too Many Requests`
        grpc = grpc_status(reason),
        who_acts = about.who_acts(),
        retry = prose(about.retry()),
        meaning = prose(about.meaning),
        remedy = prose(about.remedy),
        operator = about.operator.map(for_operators).unwrap_or_default(),
        example = escaped(&format!("{:#}", example(reason))),
    );
    HtmlPage { title: code, description: "What this error code means, and what to do", main: &main }.render()
}

/// The list of all codes, by status.
pub(super) fn index() -> String {
    let mut reasons: Vec<_> = codes::all().collect();
    // A stable sort: within a status, in the order of the enum.
    reasons.sort_by_key(|&reason| explain(reason).status);
    let mut rows = String::new();
    for reason in reasons {
        let _ = writeln!(
            // cannot fail: it is a String
            rows,
            "<tr><td data-label=\"HTTP\">{status}</td><th scope=\"row\"><a \
             href=\"{path}\"><code>{code}</code></a></th> <td \
             data-label=\"gRPC\">{grpc}</td><td>{meaning}</td></tr>",
            status = explain(reason).status.as_u16(),
            path = codes::page_path(reason),
            code = codes::code(reason),
            grpc = grpc_status(reason),
            meaning = prose(first_sentence(explain(reason).meaning)),
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

/// A paragraph of HTML.
fn for_operators(operator: &str) -> String {
    format!("        <p>For the operator: {}</p>\n", prose(operator))
}

/// As HTML.
fn grpc_status(reason: ErrorReason) -> String {
    explain(reason).grpc.map_or_else(|| "–".to_owned(), |code| format!("<code>{code}</code>"))
}

/// Up to the first full stop that ends a sentence.
pub(super) fn first_sentence(text: &str) -> &str {
    text.find(". ").and_then(|end| text.get(..=end)).unwrap_or(text)
}
