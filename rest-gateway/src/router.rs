//! Every URL, and the one layer around them.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    routing::{MethodRouter, Route, get},
};
use http::{StatusCode, header};
use tower::{layer::layer_fn, service_fn};

use crate::{
    docs,
    error::ApiError,
    gateway::{Gateway, GatewayState},
    middleware::edge,
    routes::{openapi, orders, pets, usage},
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
/// `edge` does 1 to 3 and completes every answer on its way out.
pub fn router(gateway: Gateway) -> Router {
    let gateway = gateway.into_state();
    Router::new()
        .route("/v1/pets", resource("GET, HEAD, POST, OPTIONS", get(pets::list).post(pets::create)))
        .route("/v1/pets/{pet_id}", resource("GET, HEAD, OPTIONS", get(pets::get))) // until 2030-12-05
        .route("/v1/store/orders", resource("GET, HEAD, OPTIONS", get(orders::list))) // experimental
        .route(usage::PATH, resource("GET, HEAD, OPTIONS", get(usage::get))) // costs no quota
        .route("/openapi.json", resource("GET, HEAD, OPTIONS", get(openapi::get))) // open to everybody
        .merge(docs::routes()) // likewise; its failures are pages too
        .fallback(async || ApiError::RouteNotFound)
        .with_state(gateway.clone())
        .layer(layer_fn(move |inner: Route| {
            let gateway = gateway.clone();
            service_fn(move |request: Request| edge::answer(gateway.clone(), inner.clone(), request))
        }))
}

/// A path that serves `methods`, tells them to OPTIONS, and refuses all others. HEAD comes with GET.
fn resource(
    allow: &'static str,
    methods: MethodRouter<Arc<GatewayState>>,
) -> MethodRouter<Arc<GatewayState>> {
    methods
        .options(async move || (StatusCode::NO_CONTENT, [(header::ALLOW, allow)]))
        .fallback(async move || ApiError::MethodNotAllowed { allow })
}

#[cfg(test)]
mod tests;
