//! Pages of the console and the assets that they load, all embedded. They look like the documentation, and
//! share its parts.

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::docs::{Resource, strict};

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

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml; charset=utf-8";

/// Name, media type and content of each asset.
const ASSETS: [(&str, &str, &str); 21] = [
    ("docs.css", CSS, include_str!("../docs/assets/docs.css")),
    ("icon.svg", PICTURE, include_str!("../docs/assets/icon.svg")),
    ("theme.js", SCRIPT, include_str!("../docs/assets/theme.js")),
    ("element.mjs", SCRIPT, include_str!("../docs/assets/element.mjs")),
    ("console.css", CSS, include_str!("assets/console.css")),
    ("main.mjs", SCRIPT, include_str!("assets/main.mjs")),
    ("api.mjs", SCRIPT, include_str!("assets/api.mjs")),
    ("chart.mjs", SCRIPT, include_str!("assets/chart.mjs")),
    ("dialog.mjs", SCRIPT, include_str!("assets/dialog.mjs")),
    ("format.mjs", SCRIPT, include_str!("assets/format.mjs")),
    ("metrics.mjs", SCRIPT, include_str!("assets/metrics.mjs")),
    ("session.mjs", SCRIPT, include_str!("assets/session.mjs")),
    ("view.mjs", SCRIPT, include_str!("assets/view.mjs")),
    ("overview.mjs", SCRIPT, include_str!("assets/overview.mjs")),
    ("accounts.mjs", SCRIPT, include_str!("assets/accounts.mjs")),
    ("account.mjs", SCRIPT, include_str!("assets/account.mjs")),
    ("keys.mjs", SCRIPT, include_str!("assets/keys.mjs")),
    ("key.mjs", SCRIPT, include_str!("assets/key.mjs")),
    ("refusals.mjs", SCRIPT, include_str!("assets/refusals.mjs")),
    ("audit.mjs", SCRIPT, include_str!("assets/audit.mjs")),
    ("operators.mjs", SCRIPT, include_str!("assets/operators.mjs")),
];

/// Serves every page and asset. Other paths below `/console` are pages too, with status 404, and `/` leads to
/// the console.
pub(super) fn routes() -> Router {
    let document = |status| Resource::html(status, include_str!("assets/console.html").to_owned());
    let (page, missing) = (document(StatusCode::OK), document(StatusCode::NOT_FOUND));
    let mut router = Router::new();
    for path in PAGES {
        router = serve(router, path, page.clone());
    }
    for (name, media_type, content) in ASSETS {
        let asset = Resource::new(StatusCode::OK, media_type, content);
        router = serve(router, &format!("/console/assets/{name}"), asset);
    }
    for path in ["/", "/console/"] {
        router = router.route(path, get(async || strict((StatusCode::FOUND, TO_CONSOLE).into_response())));
    }
    serve(router, "/console/{*path}", missing)
}

fn serve(router: Router, path: &str, resource: Resource) -> Router {
    router.route(path, get(async move |headers: HeaderMap| resource.answer(&headers)))
}
