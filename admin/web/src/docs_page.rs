//! The page about the admin API in the documentation of the public port, from its OpenAPI document.

use petstore_gateway::docs::{DocsPage, operations};
use serde_json::Value;

use crate::api;

/// Returns the page.
pub fn page() -> DocsPage {
    DocsPage::new("/docs/admin", "Admin API", "Every operation of the admin API, for operators", main)
}

fn main() -> String {
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
        let (page, document) = (main(), api::openapi_document());
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
