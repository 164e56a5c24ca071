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
mod reference;
#[cfg(test)]
mod tests;
mod topics;

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::{MethodRouter, any, get},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};

use html::HtmlPage;
use petstore_proto::v1::ErrorReason;
pub use reference::operations;

use crate::{
    API_CATALOG, embedded, error_page_path, openapi,
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
    fn html(&self) -> String {
        let Self { title, description, main, .. } = *self;
        HtmlPage { title, description, main: &main() }.render()
    }
}

/// Serves every path of the documentation and of the `further` pages, and redirects `/` to it. An unknown
/// path below `/docs` is a 404 page rather than an Error body, because a person reads it.
pub fn routes(further: &'static [DocsPage]) -> Router {
    let page = |status, title, main| {
        let html = move || HtmlPage { title, description: title, main }.render();
        [0, 1, 2, 3].map(|depth| Representation::html(status, move || with_links(&html(), depth, further)))
    };
    let of_depth =
        |pages: &[Representation; 4], path: &str| pages.get(depth_of(path)).unwrap_or(&pages[0]).clone();
    let refusal = page(
        StatusCode::METHOD_NOT_ALLOWED,
        "This page is read-only",
        include_str!("docs/assets/read-only.html"),
    );
    let missing =
        page(StatusCode::NOT_FOUND, "There is no such page", include_str!("docs/assets/missing.html"));

    let only_get = move |path: &str, methods: MethodRouter| {
        let refusal = of_depth(&refusal, path);
        methods // and HEAD
            .options(async || strict((StatusCode::NO_CONTENT, AppendHeaders([ALLOW])).into_response()))
            .fallback(async move |headers: HeaderMap| (AppendHeaders([ALLOW]), refusal.page(&headers)))
    };
    let mut router = Router::new();
    for (path, resource) in resources(further) {
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

/// Returns the page with links to the further pages in its navigation. Its links are relative to a path of
/// this depth, and so lead to the same service below any base address; at 0 they are absolute.
fn with_links(html: &str, depth: usize, further: &[DocsPage]) -> String {
    let link = |DocsPage { path, title, .. }: &DocsPage| format!("<a href=\"{path}\">{title}</a>");
    let html = html.replace("{further}", &further.iter().map(link).collect::<String>());
    let Some(above) = depth.checked_sub(1).map(|above| "../".repeat(above)) else { return html };
    html.replace("href=\"/", &format!("href=\"{above}")).replace("src=\"/", &format!("src=\"{above}"))
}

/// Returns the first page, with its operations as HTML.
fn home() -> String {
    let main = include_str!("docs/assets/docs.html")
        .replace("{topics}", &topics::links("/docs"))
        .replace("{plans}", &topics::plans_table())
        .replace("{operations}", &reference::operations(openapi::document(), "/v1"));
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
    const INDEX: &str = "text/plain; charset=utf-8";
    let markdown = topics::markdown().map(|(path, text)| {
        (path, Representation::new(StatusCode::OK, "text/markdown; charset=utf-8", text))
    });
    let index = Representation::new(StatusCode::OK, INDEX, topics::index_for_programs);
    let catalog =
        Representation::new(StatusCode::OK, CATALOG, || include_str!("docs/assets/api-catalog.json"));
    markdown.chain([("/llms.txt".to_owned(), index), (API_CATALOG.to_owned(), catalog)])
}

/// Path of a page, and the function that makes its HTML.
type Page = (String, Box<dyn FnOnce() -> String + Send>);

/// Returns all pages.
fn pages(further: &'static [DocsPage]) -> impl Iterator<Item = Page> {
    let first: [Page; 2] = [
        ("/docs".to_owned(), Box::new(home)),
        (error_pages::INDEX_PATH.to_owned(), Box::new(error_pages::index)),
    ];
    let of_errors = ErrorReason::all().map(|reason| -> Page {
        (error_page_path(reason), Box::new(move || error_pages::error_page(reason)))
    });
    let further = further.iter().map(|page| -> Page { (page.path.to_owned(), Box::new(|| page.html())) });
    first.into_iter().chain(topics::pages()).chain(of_errors).chain(further)
}

/// Returns all resources with their paths. Each is made at the first request for it.
fn resources(further: &'static [DocsPage]) -> impl Iterator<Item = (String, Representation)> {
    let pages_with_links = pages(further).map(move |(path, html)| {
        let depth = depth_of(&path);
        (path, Representation::html(StatusCode::OK, move || with_links(&html(), depth, further)))
    });
    let index = move || html::search_index(pages(further).map(|(path, html)| (path, html())));
    let index = Representation::new(StatusCode::OK, "application/json; charset=utf-8", index);
    let assets = ASSETS
        .iter()
        .map(|(name, content)| (format!("/docs/assets/{name}"), Representation::asset(name, content)));
    pages_with_links
        .chain([("/docs/assets/search.json".to_owned(), index)])
        .chain(assets)
        .chain(for_programs())
}
