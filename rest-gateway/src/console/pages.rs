//! Pages of the console and the assets that they load, all embedded. They look like the documentation, and
//! share its parts.

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::representation::{Representation, embedded, strict};

/// Paths of pages. All are one document, in which a script shows the page of the path.
const PAGES: [&str; 9] = [
    "/console",
    "/console/accounts",
    "/console/accounts/{name}",
    "/console/keys",
    "/console/keys/{id}",
    "/console/bans",
    "/console/refusals",
    "/console/audit",
    "/console/operators",
];

/// Redirect to the first page. Temporary, because browsers keep a permanent redirect.
const TO_CONSOLE: AppendHeaders<[(header::HeaderName, HeaderValue); 1]> =
    AppendHeaders([(header::LOCATION, HeaderValue::from_static("/console"))]);

/// Files that the pages share with the documentation, and their own.
const ASSETS: [&[(&str, &str)]; 2] = [
    &embedded!("../docs/assets/": "docs.css" "icon.svg" "theme.js" "element.mjs"),
    &embedded!("assets/":
        "console.css" "main.mjs" "api.mjs" "chart.mjs" "dialog.mjs" "format.mjs" "metrics.mjs" "session.mjs"
        "view.mjs" "overview.mjs" "accounts.mjs" "account.mjs" "keys.mjs" "key.mjs" "refusals.mjs" "audit.mjs"
        "operators.mjs"),
];

/// Serves every page and asset. Other paths below `/console` are pages too, with status 404, and `/` leads to
/// the console.
pub(super) fn routes() -> Router {
    let document = |status| Representation::html(status, include_str!("assets/console.html").to_owned());
    let (page, missing) = (document(StatusCode::OK), document(StatusCode::NOT_FOUND));
    let mut router = Router::new();
    for path in PAGES {
        router = serve(router, path, page.clone());
    }
    for (name, content) in ASSETS.into_iter().flatten() {
        router = serve(router, &format!("/console/assets/{name}"), Representation::asset(name, content));
    }
    for path in ["/", "/console/"] {
        router = router.route(path, get(async || strict((StatusCode::FOUND, TO_CONSOLE).into_response())));
    }
    serve(router, "/console/{*path}", missing)
}

fn serve(router: Router, path: &str, resource: Representation) -> Router {
    router.route(path, get(async move |headers: HeaderMap| resource.page(&headers)))
}
