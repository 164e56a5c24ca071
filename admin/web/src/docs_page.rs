//! The page about the admin API in the documentation of the public port, from its OpenAPI document.

use petstore_docs::{DocsPage, operations};

use crate::api;

/// The page.
pub const PAGE: DocsPage = DocsPage {
    path: "/docs/admin",
    title: "Admin API",
    description: "Every operation of the admin API, for operators",
    main,
};

fn main() -> String {
    format!(include_str!("docs_page/page.html"), operations = operations(&api::openapi_document(), ""))
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
        assert!(page.contains("<code>grace</code><span>body</span>"), "parameters and bodies are listed");
    }
}
