//! The documentation for people: `/docs`, where every operation can be tried, a page per topic such as
//! `/docs/paging`, and `/docs/errors` with a page per error code. It is served without a key, without rate
//! headers and without any other server: everything is embedded in the binary, and is rendered at the first
//! request for it.
//!
//! `/docs` lists the operations of `/openapi.json`. In a browser with JavaScript, a script replaces the list
//! by one in which they can be tried. The other pages are plain HTML: topics are sections of `docs/api.md`,
//! and the pages about errors are made from `docs/errors.md` and the table of codes. Programs find the topics
//! as Markdown (`/docs/paging.md`), their index (`/llms.txt`) and a catalog (RFC 9727).

mod error_pages;
mod html;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::{MethodRouter, any, get},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};

pub use html::operations;

use crate::{
    API_CATALOG, embedded, openapi,
    representation::{Representation, strict},
};

/// Parts of the pages, below `/docs/assets/`, by name, with their content.
pub const ASSETS: &[(&str, &str)] = &embedded!("docs/assets/":
    "docs.css" "icon.svg" "theme.js" "main.mjs" "answer.mjs" "api-key.mjs" "contents.mjs" "document.mjs"
    "element.mjs" "json-text.mjs" "operation.mjs" "rate-limit.mjs" "request.mjs" "response.mjs" "samples.mjs"
    "schema.mjs" "search.mjs" "try-it.mjs");

/// Methods that every page serves.
const ALLOW: (HeaderName, HeaderValue) = (header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));

/// `Link` of the first page and of the catalog: the descriptions of the interface (RFC 8631), and the catalog
/// that names them (RFC 9727).
const DESCRIPTIONS: (HeaderName, HeaderValue) = (
    header::LINK,
    HeaderValue::from_static(
        "</openapi.json>; rel=\"service-desc\"; type=\"application/json\", </docs>; rel=\"service-doc\"; \
         type=\"text/html\", </.well-known/api-catalog>; rel=\"api-catalog\"",
    ),
);

/// Page of the documentation. It is made at the first request for it.
#[derive(Clone)]
pub struct DocsPage {
    path: String,
    title: &'static str,
    description: &'static str,
    main: Arc<dyn Fn() -> String + Send + Sync>,
}

impl DocsPage {
    /// Creates a page with a title and a summary in one line, as plain text, and a function that makes its
    /// content: the `<main>` element and the navigation beside it, as HTML.
    pub fn new(
        path: impl Into<String>,
        title: &'static str,
        description: &'static str,
        main: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        Self { path: path.into(), title, description, main: Arc::new(main) }
    }

    /// Returns the whole page, with these `links` in its navigation. Links are relative to a path of this
    /// depth, and so lead to the same service below any base address; at 0 they are absolute.
    fn html(&self, links: &str, depth: usize) -> String {
        let html = include_str!("docs/assets/frame.html")
            .replace("{title}", &html::escaped(self.title))
            .replace("{description}", &html::escaped(self.description))
            .replace("{main}", &(self.main)())
            .replace("{further}", links);
        let Some(above) = depth.checked_sub(1).map(|above| "../".repeat(above)) else { return html };
        html.replace("href=\"/", &format!("href=\"{above}")).replace("src=\"/", &format!("src=\"{above}"))
    }
}

/// Serves every path of the documentation and of the `further` pages, and redirects `/` to it. An unknown
/// path below `/docs` is a 404 page rather than an Error body, because a person reads it.
pub fn routes(further: &[DocsPage]) -> Router {
    let links = |page: &DocsPage| format!("<a href=\"{}\">{}</a>", page.path, page.title);
    let links: String = further.iter().map(links).collect();
    let page = |status, page: DocsPage, depth| {
        let links = links.clone();
        Representation::html(status, move || page.html(&links, depth))
    };
    let failure = |status, title, main: &'static str| {
        let failure = DocsPage::new("", title, title, || main.to_owned());
        [0, 1, 2, 3].map(|depth| page(status, failure.clone(), depth))
    };
    let of_depth =
        |pages: &[Representation; 4], path: &str| pages.get(depth_of(path)).unwrap_or(&pages[0]).clone();
    let read_only = include_str!("docs/assets/read-only.html");
    let refusal = failure(StatusCode::METHOD_NOT_ALLOWED, "This page is read-only", read_only);
    let missing = include_str!("docs/assets/missing.html");
    let missing = failure(StatusCode::NOT_FOUND, "There is no such page", missing);

    let only_get = move |path: &str, methods: MethodRouter| {
        let refusal = of_depth(&refusal, path);
        methods // and HEAD
            .options(async || strict((StatusCode::NO_CONTENT, AppendHeaders([ALLOW])).into_response()))
            .fallback(async move |headers: HeaderMap| (AppendHeaders([ALLOW]), refusal.page(&headers)))
    };
    let pages = pages(further);
    let of_pages =
        pages.iter().map(|it| (it.path.clone(), page(StatusCode::OK, it.clone(), depth_of(&it.path))));
    let mut router = Router::new();
    for (path, resource) in of_pages.chain(other_resources(&pages)) {
        let links = [DESCRIPTIONS].into_iter().filter(|_| path == "/docs" || path == API_CATALOG);
        let links: Vec<_> = links.collect();
        let methods =
            get(async move |headers: HeaderMap| (AppendHeaders(links.clone()), resource.page(&headers)));
        router = router.route(&path, only_get(&path, methods));
    }
    // For people who open the service in a browser. It is not permanent (301 and 308 are kept by browsers),
    // because the path may serve another page in future.
    for (path, docs) in [("/", "docs"), ("/docs/", "../docs")] {
        let headers = AppendHeaders([(header::LOCATION, HeaderValue::from_static(docs)), DESCRIPTIONS]);
        let methods = get(async move || strict((StatusCode::FOUND, headers.clone()).into_response()));
        router = router.route(path, only_get(path, methods));
    }
    let missing = async move |uri: Uri, headers: HeaderMap| of_depth(&missing, uri.path()).page(&headers);
    router.route("/docs/{*path}", any(missing))
}

/// Returns the number of names in a path.
fn depth_of(path: &str) -> usize {
    path.matches('/').count()
}

/// Returns all pages.
fn pages(further: &[DocsPage]) -> Vec<DocsPage> {
    let home = || {
        include_str!("docs/assets/docs.html")
            .replace("{topics}", &topics::links("/docs"))
            .replace("{plans}", &topics::plans_table())
            .replace("{operations}", &operations(openapi::document(), "/v1"))
    };
    let description = "How to use the Animal Store Service, with every operation to try";
    let home = DocsPage::new("/docs", "Animal Store Service", description, home);
    let pages = [home, error_pages::index()].into_iter().chain(topics::pages());
    pages.chain(error_pages::pages()).chain(further.iter().cloned()).collect()
}

/// Returns what is no page, with its path: the parts of pages, and what only programs read.
fn other_resources(pages: &[DocsPage]) -> impl Iterator<Item = (String, Representation)> {
    const CATALOG: &str = r#"application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727""#;
    const INDEX: &str = "application/json; charset=utf-8";
    let pages = pages.to_vec();
    let index = Representation::new(StatusCode::OK, INDEX, move || html::search_index(&pages));
    let programs = "text/plain; charset=utf-8";
    let programs = Representation::new(StatusCode::OK, programs, topics::index_for_programs);
    let catalog = || include_str!("docs/assets/api-catalog.json");
    let catalog = Representation::new(StatusCode::OK, CATALOG, catalog);
    let assets = ASSETS.iter().map(|(name, content)| (*name, Representation::asset(name, content)));
    let assets = assets.chain([("search.json", index)]);
    let others = [("/llms.txt".to_owned(), programs), (API_CATALOG.to_owned(), catalog)];
    let assets = assets.map(|(name, asset)| (format!("/docs/assets/{name}"), asset));
    assets.chain(topics::markdown()).chain(others)
}
