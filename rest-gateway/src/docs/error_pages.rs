//! The pages about error codes: one per code, and the list of them.

use std::fmt::Write as _;

use http::StatusCode;
use petstore_proto::v1::ErrorReason;

use super::{
    error_codes::{self, explanation},
    html::{Page, escaped, prose},
};

/// Where the list of all codes is.
pub(super) const INDEX_PATH: &str = "/docs/errors";

/// Where the page about a code is.
pub(crate) fn path_of(reason: ErrorReason) -> String {
    format!("{INDEX_PATH}/{}", error_codes::code(reason))
}

/// The page about one code.
pub(super) fn page_of(reason: ErrorReason) -> String {
    let code = error_codes::code(reason);
    let about = explanation(reason);
    let main = format!(
        include_str!("assets/error.html"),
        code = code,
        http = http_status(reason),
        grpc = grpc_status(reason),
        retry = prose(about.retry.advice()),
        meaning = prose(about.meaning),
        remedy = prose(about.remedy),
        example = escaped(&format!("{:#}", error_codes::example(reason))),
    );
    Page { title: code, description: "What this error code means, and what to do", main: &main }.render()
}

/// The list of all codes, by status.
pub(super) fn index() -> String {
    let mut reasons: Vec<_> = error_codes::all().collect();
    reasons.sort_by_key(|&reason| error_codes::status(reason)); // stable: within a status, in the order of the enum
    let mut rows = String::new();
    for reason in reasons {
        let _ = writeln!(
            // cannot fail: it is a String
            rows,
            "<tr><td data-label=\"HTTP\">{status}</td><th scope=\"row\"><a href=\"{path}\"><code>{code}</code></a></th>\
             <td data-label=\"gRPC\">{grpc}</td><td>{meaning}</td></tr>",
            status = error_codes::status(reason),
            path = path_of(reason),
            code = error_codes::code(reason),
            grpc = grpc_status(reason),
            meaning = prose(first_sentence(explanation(reason).meaning)),
        );
    }
    let main = include_str!("assets/errors.html").replace("{rows}", &rows);
    Page { title: "Error codes", description: "Every error code of the Animal Store Service", main: &main }
        .render()
}

/// Such as `429 Too Many Requests`.
fn http_status(reason: ErrorReason) -> String {
    let status = error_codes::status(reason);
    let name =
        StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    format!("{status} {name}")
}

/// As HTML.
fn grpc_status(reason: ErrorReason) -> String {
    explanation(reason).grpc.map_or_else(|| "–".to_owned(), |code| format!("<code>{code}</code>"))
}

/// Up to the first full stop that ends a sentence.
fn first_sentence(text: &str) -> &str {
    text.find(". ").and_then(|end| text.get(..=end)).unwrap_or(text)
}
