//! The pages about error codes: one per code, and the list of them.

use std::fmt::Write as _;

use petstore_proto::{Retry, v1::ErrorReason};
use petstore_telemetry::traces::grpc;

use super::{
    DocsPage,
    html::{escaped, prose},
    topics::with_links,
};
use crate::{error_page_path, openapi};

/// Returns the page about each code. That of a code that only gRPC has is without an example of an Error
/// body.
pub(super) fn pages() -> impl Iterator<Item = DocsPage> {
    ErrorReason::all().map(|reason| {
        let description = "What this error code means, and what to do";
        let (path, title) = (error_page_path(reason), reason.code().name);
        DocsPage::new(path, title, description, move || error_page(reason))
    })
}

fn error_page(reason: ErrorReason) -> String {
    let (code, [meaning, remedy, operator]) = (reason.code(), explanation(reason));
    let example =
        |error| format!(include_str!("assets/error-example.html"), example = escaped(&format!("{error:#}")));
    format!(
        include_str!("assets/error.html"),
        code = code.name,
        http = code.http, // such as `429 Too Many Requests`
        grpc = grpc_status(reason),
        who_acts = match code.retry {
            _ if operator.is_empty() => "the client",
            Retry::Never => "the operator",
            Retry::Backoff | Retry::After => "the operator; as a client, wait and retry",
        },
        retry = prose(match code.retry {
            Retry::Never => "No. Fix the request first.",
            Retry::Backoff => "Yes, a few times, with exponential backoff.",
            Retry::After => "Yes. Wait `Retry-After` seconds; back off exponentially if it fails again.",
        }),
        meaning = prose(meaning),
        remedy = with_links(&prose(remedy)),
        operator = match operator {
            "" => String::new(),
            _ => format!("        <p>For the operator: {}</p>\n", prose(operator)),
        },
        example =
            openapi::error_examples(openapi::document()).get(code.name).map(example).unwrap_or_default(),
    )
}

/// Returns the list of all codes, by status.
pub(super) fn index() -> DocsPage {
    DocsPage::new("/docs/errors", "Error codes", "Every error code of the Animal Store Service", || {
        let mut rows = String::new();
        for reason in by_status() {
            let (code, [meaning, ..]) = (reason.code(), explanation(reason));
            // Up to the first full stop that ends a sentence.
            let meaning = meaning.find(". ").and_then(|end| meaning.get(..=end)).unwrap_or(meaning);
            let _ = write!(
                rows, // a write to a String cannot fail
                include_str!("assets/error-row.html"),
                status = code.http.as_u16(),
                path = error_page_path(reason),
                code = code.name,
                grpc = grpc_status(reason),
                meaning = prose(meaning),
            );
        }
        include_str!("assets/errors.html").replace("{rows}", &rows)
    })
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

/// Returns the explanation of a code in `docs/errors.md`: its meaning, advice for the client, and for the
/// operator, which is empty if the client alone has to act. `` `…` `` is code.
pub(super) fn explanation(reason: ErrorReason) -> [&'static str; 3] {
    static GUIDE: &str = include_str!("../../../docs/errors.md");
    let begin = format!("| `{}` | ", reason.code().name);
    let row = GUIDE.lines().find_map(|line| line.strip_prefix(&*begin)?.strip_suffix(" |"));
    let cells: Vec<_> = row.unwrap_or_default().split(" | ").collect();
    let [.., meaning, advice] = cells[..] else { return [""; 3] };
    let (remedy, operator) = advice.split_once(" Operator: ").unwrap_or((advice, ""));
    [meaning, remedy, operator]
}
