//! The pages and what they load, all embedded. They look like the documentation, and share its parts.

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::docs::{Resource, strict};

/// The paths of pages: one document, in which a script shows what belongs to the path.
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

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml; charset=utf-8";

/// Name, media type and content of each.
const ASSETS: [(&str, &str, &str); 20] = [
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

/// Every page and asset.
pub(super) fn routes() -> Router {
    let page = Resource::html(StatusCode::OK, include_str!("assets/console.html").to_owned());
    let mut router = Router::new();
    for path in PAGES {
        let page = page.clone();
        router = router.route(path, get(async move |headers: HeaderMap| page.answer(&headers)));
    }
    for (name, media_type, content) in ASSETS {
        let asset = Resource::new(StatusCode::OK, media_type, content);
        let path = format!("/console/assets/{name}");
        router = router.route(&path, get(async move |headers: HeaderMap| asset.answer(&headers)));
    }
    let to_console = AppendHeaders([(header::LOCATION, HeaderValue::from_static("/console"))]);
    router.route("/console/", get(async || strict((StatusCode::FOUND, to_console).into_response())))
}
