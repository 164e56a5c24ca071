//! The page about the admin API, from its OpenAPI document.

use std::sync::LazyLock;

use http::StatusCode;
use serde_json::Value;

use super::{html::HtmlPage, reference};
use crate::{admin, representation::Representation};

/// Path of the page.
pub(super) const PATH: &str = "/docs/admin";

/// The page. It is made on the first request for it, because the descriptors that it is made from take memory
/// that few gateways need.
pub(super) static PAGE: LazyLock<Representation> =
    LazyLock::new(|| Representation::html(StatusCode::OK, page(&admin::openapi_document())));

fn page(document: &Value) -> String {
    let main = format!(include_str!("assets/admin.html"), operations = reference::sections(document, ""));
    let description = "Every operation of the admin API, for operators";
    HtmlPage { title: "Admin API", description, main: &main }.render()
}
