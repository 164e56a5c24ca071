//! The documentation for people: `/docs`, where every operation can be tried, a page per topic such as
//! `/docs/paging`, and `/docs/errors` with a page per error code. It is served without a key, without rate
//! headers and without any other server: everything is embedded in the binary, and is rendered once when the
//! routes are made.
//!
//! `/docs` lists the operations of `/openapi.json`. In a browser with JavaScript, a script replaces the list
//! by one in which they can be tried. The other pages are plain HTML: topics are sections of `docs/api.md`,
//! and the pages about errors are made from `docs/errors.md` and the table of codes. Programs find the topics
//! as Markdown (`/docs/paging.md`), their index (`/llms.txt`) and a catalog (RFC 9727).

mod error_pages;
mod html;
mod reference;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::{MethodRouter, any, get},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use html::HtmlPage;
use petstore_gateway::{
    API_CATALOG, embedded, error_page_path, openapi,
    representation::{Representation, strict},
};
use petstore_proto::v1::ErrorReason;
pub use reference::operations;

/// Parts of the pages, below `/docs/assets/`, by name, with their content.
pub const ASSETS: &[(&str, &str)] = &embedded!("assets/":
    "docs.css" "icon.svg" "theme.js" "main.mjs" "answer.mjs" "api-key.mjs" "contents.mjs" "document.mjs"
    "element.mjs" "json-text.mjs" "operation.mjs" "rate-limit.mjs" "request.mjs" "response.mjs" "samples.mjs"
    "schema.mjs" "search.mjs" "try-it.mjs");

/// Methods that every page serves.
const ALLOW: (HeaderName, HeaderValue) = (header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));

/// Redirect of `/` to the documentation, for people who open the service in a browser. It is not permanent
/// (301 and 308 are kept by browsers), because the path may serve another page in future.
const TO_DOCS: (HeaderName, HeaderValue) = (header::LOCATION, HeaderValue::from_static("/docs"));

/// `Link` of the first page and of the catalog: the descriptions of the interface (RFC 8631), and the catalog
/// that names them (RFC 9727).
const DESCRIPTIONS: (HeaderName, HeaderValue) = (
    header::LINK,
    HeaderValue::from_static(
        "</openapi.json>; rel=\"service-desc\"; type=\"application/json\", </docs>; rel=\"service-doc\"; \
         type=\"text/html\", </.well-known/api-catalog>; rel=\"api-catalog\"",
    ),
);

/// Page that another part of the program adds. It is made on the first request for it.
#[derive(Clone, Copy, Debug)]
pub struct DocsPage {
    /// Path, below `/docs/`.
    pub path: &'static str,
    /// Title, as plain text.
    pub title: &'static str,
    /// Summary in one line, as plain text.
    pub description: &'static str,
    /// Function that makes its content: the `<main>` element and the navigation beside it, as HTML.
    pub main: fn() -> String,
}

impl DocsPage {
    fn representation(self, further: &[Self]) -> Representation {
        let Self { title, description, main, .. } = self;
        finished(StatusCode::OK, &HtmlPage { title, description, main: &main() }.render(), further)
    }
}

/// Serves every path of the documentation and of the `further` pages, and redirects `/` to it. An unknown
/// path below `/docs` is a 404 page rather than an Error body, because a person reads it.
pub fn routes(further: &[DocsPage]) -> Router {
    let page = |status, title, main| {
        finished(status, &HtmlPage { title, description: title, main }.render(), further)
    };
    let refusal =
        page(StatusCode::METHOD_NOT_ALLOWED, "This page is read-only", include_str!("assets/read-only.html"));
    let missing = page(StatusCode::NOT_FOUND, "There is no such page", include_str!("assets/missing.html"));

    let only_get = move |methods: MethodRouter| {
        let refusal = refusal.clone();
        methods // and HEAD
            .options(async || strict((StatusCode::NO_CONTENT, AppendHeaders([ALLOW])).into_response()))
            .fallback(async move |headers: HeaderMap| (AppendHeaders([ALLOW]), refusal.page(&headers)))
    };
    let mut router = Router::new();
    for (path, resource) in resources(further).into_iter().chain(for_programs()) {
        let links = [DESCRIPTIONS].into_iter().filter(|_| path == "/docs" || path == API_CATALOG);
        let links: Vec<_> = links.collect();
        let methods =
            get(async move |headers: HeaderMap| (AppendHeaders(links.clone()), resource.page(&headers)));
        router = router.route(&path, only_get(methods));
    }
    for &page in further {
        let (made, further) = (Arc::<OnceLock<Representation>>::default(), further.to_owned());
        let methods = get(async move |headers: HeaderMap| {
            made.get_or_init(|| page.representation(&further)).page(&headers)
        });
        router = router.route(page.path, only_get(methods));
    }
    for path in ["/", "/docs/"] {
        let methods =
            get(async || strict((StatusCode::FOUND, AppendHeaders([TO_DOCS, DESCRIPTIONS])).into_response()));
        router = router.route(path, only_get(methods));
    }
    router.route("/docs/{*path}", any(async move |headers: HeaderMap| missing.page(&headers)))
}

/// Returns the page with links to the further pages in its navigation.
fn finished(status: StatusCode, html: &str, further: &[DocsPage]) -> Representation {
    let link = |DocsPage { path, title, .. }: &DocsPage| format!("<a href=\"{path}\">{title}</a>");
    let links: String = further.iter().map(link).collect();
    Representation::html(status, html.replace("{further}", &links))
}

/// Returns the first page, with these operations as HTML.
fn home(operations: &str) -> String {
    let main = include_str!("assets/docs.html")
        .replace("{plans}", &topics::plans_table())
        .replace("{operations}", operations);
    let page = HtmlPage {
        title: "Animal Store Service",
        description: "How to use the Animal Store Service, with every operation to try",
        main: &main,
    };
    page.render()
}

/// Returns what only programs read, with their paths: the topics as Markdown, their index, and the catalog.
fn for_programs() -> impl Iterator<Item = (String, Representation)> {
    const CATALOG: &str = r#"application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727""#;
    let of = |media_type, body: String| Representation::new(StatusCode::OK, media_type, body);
    let markdown = topics::markdown();
    let markdown = markdown.map(move |(path, text)| (path, of("text/markdown; charset=utf-8", text)));
    let index = of("text/plain; charset=utf-8", topics::index_for_programs());
    let catalog = of(CATALOG, include_str!("assets/api-catalog.json").to_owned());
    markdown.chain([("/llms.txt".to_owned(), index), (API_CATALOG.to_owned(), catalog)])
}

/// Returns all resources that are made at the start, with their paths.
fn resources(further: &[DocsPage]) -> Vec<(String, Representation)> {
    let mut pages =
        vec![("/docs".to_owned(), home("")), (error_pages::INDEX_PATH.to_owned(), error_pages::index())];
    pages.extend(topics::pages().map(|(path, page)| (path.to_owned(), page)));
    let examples = openapi::error_examples();
    pages.extend(ErrorReason::all().map(|reason| {
        let page = error_pages::error_page(reason, examples.get(reason.code().name));
        (error_page_path(reason), page)
    }));
    // The search finds operations in the OpenAPI document.
    let index =
        Representation::new(StatusCode::OK, "application/json; charset=utf-8", html::search_index(&pages));
    pages[0].1 = home(&reference::operations(&openapi::document(), "/v1"));
    let mut resources: Vec<_> =
        pages.into_iter().map(|(path, html)| (path, finished(StatusCode::OK, &html, further))).collect();
    resources.push(("/docs/assets/search.json".to_owned(), index));
    for (name, content) in ASSETS {
        resources.push((format!("/docs/assets/{name}"), Representation::asset(name, content)));
    }
    resources
}
