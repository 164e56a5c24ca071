//! The page about the admin API, from its OpenAPI document.

use std::{fmt::Write as _, sync::LazyLock};

use http::StatusCode;
use serde_json::{Map, Value};

use super::html::{HtmlPage, escaped, prose};
use crate::{admin, representation::Representation};

/// Path of the page.
pub(super) const PATH: &str = "/docs/admin";

/// The page. It is made on the first request for it, because the descriptors that it is made from take memory
/// that few gateways need.
pub(super) static PAGE: LazyLock<Representation> =
    LazyLock::new(|| Representation::html(StatusCode::OK, page(&admin::openapi_document())));

fn page(document: &Value) -> String {
    let mut operations = String::new();
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(methods) {
            // A write to a String cannot fail.
            let _ = writeln!(operations, "{}", section(path, method, operation));
        }
    }
    let main = format!(include_str!("assets/admin.html"), operations = operations);
    let description = "Every operation of the admin API, for operators";
    HtmlPage { title: "Admin API", description, main: &main }.render()
}

fn section(path: &str, method: &str, operation: &Value) -> String {
    let id = text(operation, "operationId");
    let mut entries = String::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        entries.push_str(&entry(text(parameter, "name"), text(parameter, "in"), parameter));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
    for (name, schema) in members(body) {
        entries.push_str(&entry(name, "body", schema));
    }
    let (summary, description) = (text(operation, "summary"), text(operation, "description"));
    let description = if description.trim_end_matches('.') == summary { "" } else { description };
    let entries =
        if entries.is_empty() { entries } else { format!("<ul class=\"entries\">\n{entries}</ul>\n") };
    format!(
        include_str!("assets/admin-operation.html"),
        id = escaped(id),
        summary = escaped(summary),
        method = escaped(method),
        title = escaped(&method.to_uppercase()),
        path = escaped(path),
        description = prose(description),
        entries = entries,
    )
}

fn entry(name: &str, place: &str, described: &Value) -> String {
    format!(
        "<li><div class=\"signature\"><code>{}</code><span>{place}</span></div><p>{}</p></li>\n",
        escaped(name),
        prose(text(described, "description")),
    )
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}
