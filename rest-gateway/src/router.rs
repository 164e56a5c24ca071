//! Every URL, and the one layer around them.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    routing::{MethodRouter, Route},
};
use http::{StatusCode, header};
use tower::{layer::layer_fn, service_fn};

use crate::{
    docs,
    error::ApiError,
    gateway::{Gateway, GatewayState},
    openapi,
    operation::{OPERATIONS, allowed_methods},
    pipeline, routes,
};

/// The public interface. Give it to [`server::serve`](crate::server::serve), which tells it who is calling.
///
/// A request passes, from the outside in (docs/contract.md, 4.1; each step may end it):
///
/// 1. request id, head (414, 431, 400): needs no look-up, so junk costs nothing and is not counted;
/// 2. authentication (401) before the limit, because the allowance belongs to the key's account;
/// 3. rate limit (429) before routing, so that unknown paths are not a way around it;
/// 4. route (404), method (405);
/// 5. the handler: media type (415), size (413), parsing (400), the call to the core.
///
/// `pipeline` does 1 to 3 and completes every answer on its way out.
pub fn router(gateway: Gateway) -> Router {
    let gateway = gateway.into_state();
    let mut router = Router::new();
    for operation in &OPERATIONS {
        if let Some((handler, _)) = routes::find(operation.id) {
            router = router.route(operation.path, handler); // a path's methods add up
        }
    }
    router = router.route("/openapi.json", openapi::route());
    let mut paths: Vec<_> = OPERATIONS.iter().map(|operation| operation.path).collect();
    paths.dedup();
    for path in paths {
        router = router.route(path, other_methods(allowed_methods(path)));
    }
    router
        .merge(docs::routes()) // its failures are pages too
        .fallback(async || ApiError::RouteNotFound)
        .with_state(gateway.clone())
        .layer(layer_fn(move |inner: Route| {
            let gateway = gateway.clone();
            service_fn(move |request: Request| pipeline::handle(gateway.clone(), inner.clone(), request))
        }))
}

/// Tells OPTIONS which methods a path serves, and refuses those that it does not.
fn other_methods(allow: String) -> MethodRouter<Arc<GatewayState>> {
    let options = [(header::ALLOW, allow.clone())];
    MethodRouter::new()
        .options(async move || (StatusCode::NO_CONTENT, options))
        .fallback(async move || ApiError::MethodNotAllowed { allow })
}

#[cfg(test)]
mod tests;
