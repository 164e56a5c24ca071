//! The admin port of a gateway, for operators: the admin API as JSON, and the operator console.
//!
//! [`admin_router`] serves both. The API is derived from the descriptors of `petstore.admin.v1.AdminService`,
//! so a new method needs no code here. The core authenticates the operator and decides what it may do. A
//! failure is an Error body, as on the public interface.
//!
//! The port that serves the router adds these layers, from the outside in: [`answer_operator`] names each
//! request and logs its answer, [`check_operators_head`] and [`refuse_foreign_pages`] refuse what no operator
//! sends, and [`with_whole_body`] reads the body within bounds.
//!
//! ```
//! use axum::{
//!     Router,
//!     extract::{Request, State},
//!     middleware::{Next, from_fn, from_fn_with_state},
//!     response::Response,
//! };
//! use petstore_admin_web::{admin_router, answer_operator, check_operators_head, refuse_foreign_pages};
//! use petstore_gateway::Gateway;
//!
//! async fn recorded(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
//!     answer_operator(&gateway, request, next).await
//! }
//!
//! fn admin_port(gateway: Gateway) -> Router {
//!     admin_router(&gateway)
//!         .layer(from_fn(refuse_foreign_pages))
//!         .layer(from_fn(check_operators_head))
//!         .layer(from_fn_with_state(gateway, recorded))
//! }
//! ```
//!
//! Programs call the same methods by their names with [`call_admin`], in the JSON of the API.

mod api;
mod console;
#[cfg(test)]
mod testing;

use petstore_gateway::docs::{DocsPage, operations};
use serde_json::Value;

#[cfg(feature = "fuzzing")]
pub use api::fuzz_requests;
pub use api::{
    USAGE_CSV_HEAD, admin_reason, answer_operator, call_admin, check_operators_head, find_requests, findings,
    method_not_allowed, record_log_level, usage_csv, with_whole_body,
};
pub use console::{HEALTH as CONSOLE_HEALTH, ProcessHealth, admin_router, refuse_foreign_pages};

/// Returns the page about the admin API in the documentation of the public port, from its OpenAPI document.
pub fn docs_page() -> DocsPage {
    DocsPage::new("/docs/admin", "Admin API", "Every operation of the admin API, for operators", docs_of_api)
}

fn docs_of_api() -> String {
    let document = api::openapi_document();
    let codes = document["components"]["responses"]["Error"]["x-error-codes"].as_object();
    let row = |(code, it): (&String, &Value)| {
        let meaning = it["meaning"].as_str().unwrap_or_default();
        format!(
            "<tr id=\"{code}\"><td><code>{code}</code></td><td>{}</td><td>{meaning}</td></tr>\n",
            it["status"]
        )
    };
    let errors: String = codes.into_iter().flatten().map(row).collect();
    format!(include_str!("docs_page/page.html"), errors = errors, operations = operations(&document, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_admin_api_has_a_section() {
        let (page, document) = (docs_of_api(), api::openapi_document());
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let section = format!("<section class=\"operation\" id=\"{id}\"");
                assert_eq!(page.matches(&section).count(), 1, "{id}");
                let route = format!("{}</span> <code>{path}</code>", method.to_uppercase());
                assert_eq!(page.matches(&route).count(), 1, "{route}");
            }
        }
        assert!(
            !page.contains("PLAN_ENTERPRISE") && page.contains("<code>enterprise</code>"),
            "words of JSON"
        );
        for (code, it) in document["components"]["responses"]["Error"]["x-error-codes"].as_object().unwrap() {
            let row = format!("<tr id=\"{code}\"><td><code>{code}</code></td><td>{}</td>", it["status"]);
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
        assert!(page.contains("<code>grace</code><span>body</span>"), "parameters and bodies are listed");
    }
}
