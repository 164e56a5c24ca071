//! The documentation for people: `/docs`, where every operation can be tried, a page per topic such as
//! `/docs/paging`, and `/docs/errors` with a page per error code. It is served without a key, without rate
//! headers and without any other server: everything is embedded in the binary and rendered once, when the
//! routes are made.
//!
//! `/docs` reads `/openapi.json` in the browser, so the interface is described in one place; the other pages
//! are plain HTML, those about errors from `docs/errors.md` and [`codes`].

mod error_pages;
mod html;
mod resource;
mod samples;
#[cfg(test)]
mod tests;
mod topics;

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::{any, get},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use html::HtmlPage;
pub(crate) use resource::{Resource, strict};

use crate::{error::codes, openapi};

/// What the page consists of, by path.
const ASSETS: [(&str, Asset); 17] = [
    ("/docs/assets/docs.css", Asset::Style(include_str!("assets/docs.css"))),
    ("/docs/assets/icon.svg", Asset::Image(include_str!("assets/icon.svg"))),
    ("/docs/assets/main.mjs", Asset::Script(include_str!("assets/main.mjs"))),
    ("/docs/assets/api-key.mjs", Asset::Script(include_str!("assets/api-key.mjs"))),
    ("/docs/assets/answer.mjs", Asset::Script(include_str!("assets/answer.mjs"))),
    ("/docs/assets/document.mjs", Asset::Script(include_str!("assets/document.mjs"))),
    ("/docs/assets/element.mjs", Asset::Script(include_str!("assets/element.mjs"))),
    ("/docs/assets/json-text.mjs", Asset::Script(include_str!("assets/json-text.mjs"))),
    ("/docs/assets/operation.mjs", Asset::Script(include_str!("assets/operation.mjs"))),
    ("/docs/assets/rate-limit.mjs", Asset::Script(include_str!("assets/rate-limit.mjs"))),
    ("/docs/assets/request.mjs", Asset::Script(include_str!("assets/request.mjs"))),
    ("/docs/assets/samples.mjs", Asset::Script(include_str!("assets/samples.mjs"))),
    ("/docs/assets/contents.mjs", Asset::Script(include_str!("assets/contents.mjs"))),
    ("/docs/assets/response.mjs", Asset::Script(include_str!("assets/response.mjs"))),
    ("/docs/assets/theme.js", Asset::Script(include_str!("assets/theme.js"))),
    ("/docs/assets/schema.mjs", Asset::Script(include_str!("assets/schema.mjs"))),
    ("/docs/assets/try-it.mjs", Asset::Script(include_str!("assets/try-it.mjs"))),
];

/// An embedded file; the kind decides the media type.
enum Asset {
    Style(&'static str),
    Script(&'static str),
    Image(&'static str),
}

/// The methods that every page serves.
const ALLOW: (HeaderName, HeaderValue) = (header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));

/// Who opens the service in a browser is led to the documentation. Not for ever (301 and 308 are kept by
/// browsers): one day something else may be there.
const TO_DOCS: (HeaderName, HeaderValue) = (header::LOCATION, HeaderValue::from_static("/docs"));

/// Every path of the documentation, and `/`, which leads there. Below `/docs`, what is unknown is a 404 page
/// rather than an Error body: a person reads it.
pub(crate) fn routes<S>() -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let refusal = page(
        StatusCode::METHOD_NOT_ALLOWED,
        "This page can only be read",
        include_str!("assets/read-only.html"),
    );
    let missing = page(StatusCode::NOT_FOUND, "There is no such page", include_str!("assets/missing.html"));

    let mut router = Router::new();
    for (path, resource) in resources() {
        let refusal = refusal.clone();
        let methods = get(async move |headers: HeaderMap| resource.answer(&headers)) // and HEAD
            .options(async || strict((StatusCode::NO_CONTENT, AppendHeaders([ALLOW])).into_response()))
            .fallback(async move |headers: HeaderMap| (AppendHeaders([ALLOW]), refusal.answer(&headers)));
        router = router.route(&path, methods);
    }
    for path in ["/", "/docs/"] {
        let refusal = refusal.clone();
        let methods = get(async || strict((StatusCode::FOUND, AppendHeaders([TO_DOCS])).into_response()))
            .options(async || strict((StatusCode::NO_CONTENT, AppendHeaders([ALLOW])).into_response()))
            .fallback(async move |headers: HeaderMap| (AppendHeaders([ALLOW]), refusal.answer(&headers)));
        router = router.route(path, methods);
    }
    router.route("/docs/{*path}", any(async move |headers: HeaderMap| missing.answer(&headers)))
}

/// A page that stands in for another.
fn page(status: StatusCode, title: &str, main: &str) -> Resource {
    Resource::html(status, HtmlPage { title, description: title, main }.render())
}

/// Everything that is served, with its path.
fn resources() -> Vec<(String, Resource)> {
    let main = include_str!("assets/docs.html").replace("{plans}", &topics::plans_table());
    let home = HtmlPage {
        title: "Animal Store Service",
        description: "How to use the Animal Store Service, with every operation to try",
        main: &main,
    };
    let mut resources = vec![
        ("/docs".to_owned(), Resource::html(StatusCode::OK, home.render())),
        (error_pages::INDEX_PATH.to_owned(), Resource::html(StatusCode::OK, error_pages::index())),
    ];
    resources
        .extend(topics::pages().map(|(path, page)| (path.to_owned(), Resource::html(StatusCode::OK, page))));
    let examples = openapi::error_examples();
    resources.extend(codes::all().map(|reason| {
        let page = error_pages::error_page(reason, examples.get(codes::code(reason)));
        (codes::page_path(reason), Resource::html(StatusCode::OK, page))
    }));
    resources.extend(ASSETS.into_iter().map(|(path, asset)| {
        let (media_type, body) = match asset {
            Asset::Style(body) => ("text/css; charset=utf-8", body),
            Asset::Script(body) => ("text/javascript; charset=utf-8", body),
            Asset::Image(body) => ("image/svg+xml; charset=utf-8", body),
        };
        (path.to_owned(), Resource::new(StatusCode::OK, media_type, body))
    }));
    resources
}
