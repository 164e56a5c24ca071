//! Routes of the public port.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use tower::ServiceExt;

use crate::{
    docs,
    error::ApiError,
    gateway::{Gateway, GatewayState},
    openapi,
    operation::{Id, allow},
    pipeline::{self, Admitted},
    routes,
    server::App,
};

/// App of the public port, for [`server::serve`](crate::server::serve).
///
/// A request passes, from the outside in (docs/contract.md, 4.1; each step may end it):
///
/// 1. request id, head (414, 431, 400, 501): needs no look-up, so junk is cheap and is not counted;
/// 2. authentication (401) before the limit, because the allowance belongs to the key's account;
/// 3. rate limit (429) before routing, so that unknown paths are not a way around it;
/// 4. route (404), method (405);
/// 5. the handler: media type (415), size (413), parsing (400), the call to the core.
///
/// `pipeline` performs steps 1 to 3 and completes every answer on its way out.
#[derive(Clone, Debug)]
pub struct RestApp {
    gateway: Arc<GatewayState>,
    /// Pages that need no key: the documentation, whose failures are pages too, and the OpenAPI document.
    pages: Router,
}

impl From<Gateway> for RestApp {
    fn from(gateway: Gateway) -> Self {
        let pages = docs::routes().route("/openapi.json", openapi::route());
        Self { gateway: Arc::clone(gateway.state()), pages: pages.fallback(async || ApiError::RouteNotFound) }
    }
}

impl App for RestApp {
    /// Returns the answer, with a single allocation for the whole request.
    fn answer(&self, request: Request, peer: SocketAddr) -> BoxFuture<'static, Response> {
        self.clone().respond(request, peer.ip()).boxed()
    }
}

impl RestApp {
    async fn respond(self, request: Request, peer: IpAddr) -> Response {
        let is_head = request.method() == Method::HEAD;
        let route = |admitted| route(&self, admitted);
        let response = pipeline::handle(&self.gateway, request, peer, route).await;
        if is_head { without_body(response) } else { response }
    }
}

async fn route(app: &RestApp, admitted: Admitted) -> Response {
    let pages = &app.pages;
    let answered = match routes::handle(&app.gateway, admitted).await {
        Ok(answered) => answered,
        Err(Admitted { operation: Id::OpenApi | Id::Docs, request, .. }) => page(pages, request).await,
        Err(Admitted { operation, request, .. }) => match allow(request.uri().path()) {
            Some(allow) if operation == Id::Options => {
                Ok((StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response())
            }
            Some(allow) => Err(ApiError::MethodNotAllowed { allow }),
            None => page(pages, request).await,
        },
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

async fn page(pages: &Router, request: Request) -> Result<Response, ApiError> {
    Box::pin(pages.clone().oneshot(request)).await.map_err(|never| match never {})
}

/// Returns the answer to HEAD, with the length of the answer to GET (RFC 9110 §9.3.2).
fn without_body(mut response: Response) -> Response {
    if let Some(len) = response.body().size_hint().exact() {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(len));
    }
    *response.body_mut() = Body::empty();
    response
}

#[cfg(test)]
mod tests;
