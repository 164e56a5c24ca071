//! The admin API: `petstore.admin.v1.AdminService` as JSON, for the admin port. Its paths, parameters, bodies
//! and OpenAPI document are made from the descriptors of that service, so that a new method needs nothing
//! here.
//!
//! The core authenticates the operator and decides what it may do; the gateway forwards the token. What only
//! a gateway knows, the limits of an account in the limiter in use, is shown to whom the core shows the
//! account.

mod attempts;
mod call;
mod error;
mod json;
mod limits;
mod method;
mod openapi;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{ConnectInfo, RawPathParams, Request, State},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, get, on},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use prost_reflect::DynamicMessage;

use self::{
    attempts::FailedAttempts,
    call::{Credentials, call},
    error::AdminError,
    method::{AdminMethod, Binding},
};
use crate::{
    error::ApiError,
    gateway::{Gateway, GatewayState},
    representation::Representation,
    request_body,
    routes::json_response,
};

/// What the handlers share.
#[derive(Debug)]
struct AdminState {
    gateway: Arc<GatewayState>,
    attempts: FailedAttempts,
}

/// The admin API, below `/admin/v1`. Who serves it must not serve it on the public port, and adds the address
/// of the peer to each request (`axum::extract::ConnectInfo<SocketAddr>`).
pub fn admin_router(gateway: Gateway) -> Router {
    let gateway = gateway.into_state();
    let attempts = FailedAttempts::new(gateway.clock.clone());
    let mut by_path: BTreeMap<String, (MethodRouter<Arc<AdminState>>, Vec<&'static str>)> = BTreeMap::new();
    for (method, binding) in method::bindings() {
        let Ok(filter) = MethodFilter::try_from(binding.http_method.clone()) else { continue };
        let (path, name) = (binding.path.clone(), method_name(&binding));
        let handler = on(filter, async move |state, path_params, request| {
            answer(state, path_params, request, &method, &binding).await
        });
        let (router, methods) = by_path.remove(&path).unwrap_or_default();
        by_path.insert(path, (router.merge(handler), [methods, vec![name]].concat()));
    }
    let mut router = Router::new();
    for (path, (handlers, methods)) in by_path {
        let allow = methods.join(", ");
        router = router.route(&path, refuse_others(handlers, allow));
    }
    let document = Representation::new("application/json", openapi::document().to_string());
    let document = get(async move |headers: HeaderMap| document.answer(&headers));
    router
        .route(limits::PATH, refuse_others(get(limits::get), "GET, HEAD".to_owned()))
        .route("/admin/v1/openapi.json", refuse_others(document, "GET, HEAD".to_owned()))
        .fallback(async || AdminError::from(ApiError::RouteNotFound))
        .with_state(Arc::new(AdminState { gateway, attempts }))
}

/// Answers methods that have no handler with 405.
fn refuse_others(handlers: MethodRouter<Arc<AdminState>>, allow: String) -> MethodRouter<Arc<AdminState>> {
    handlers.fallback(async move || AdminError::from(ApiError::MethodNotAllowed { allow }))
}

/// Returns the methods of a binding as `Allow` names them.
fn method_name(binding: &Binding) -> &'static str {
    match binding.http_method.as_str() {
        "GET" => "GET, HEAD",
        "POST" => "POST",
        "PATCH" => "PATCH",
        _ => "DELETE",
    }
}

/// Translates the request, calls the core and translates the answer.
async fn answer(
    State(state): State<Arc<AdminState>>,
    path_params: RawPathParams,
    request: Request,
    method: &AdminMethod,
    binding: &Binding,
) -> Response {
    let answered = async {
        let credentials = state.authenticate(request.headers(), request.extensions())?;
        let path: Vec<_> =
            path_params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body =
            if binding.body.is_some() { request_body::read_json(request).await? } else { Bytes::new() };
        let message = binding.message(method, &path, &query, &body)?;
        let answer = state.call(method, &message, &credentials).await?;
        let body = match &binding.response_body {
            Some(field) => answer.get_field_by_name(field).map(|value| json::from_value(&value)),
            None => Some(json::from_message(&answer)),
        };
        Ok::<_, AdminError>(body.unwrap_or_default().to_string())
    };
    let response = match answered.await {
        Ok(body) => json_response(method.success_status(), body),
        Err(error) => error.into_response(),
    };
    tracing::info!(
        target: "petstore_gateway::admin",
        method = method.name(),
        status = response.status().as_u16(),
        "answered an operator"
    );
    not_stored(response)
}

/// Answers belong to one operator and one moment, and some hold a key that was made just now.
fn not_stored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl AdminState {
    /// The operator's token, which the core will judge, and where the request came from.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        extensions: &http::Extensions,
    ) -> Result<Credentials, AdminError> {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        Credentials::read(headers, peer, &self.gateway.settings.trusted_proxies)
    }

    /// Calls the method for the operator. An address that failed too often is not heard before it may try
    /// again, but with a token that the core accepted before.
    async fn call(
        &self,
        method: &AdminMethod,
        message: &DynamicMessage,
        credentials: &Credentials,
    ) -> Result<DynamicMessage, AdminError> {
        let (address, token) = (credentials.address, credentials.token());
        self.attempts.check(address, token.as_ref()).await?;
        let answer = call(self.gateway.core.transport(), method, message, credentials).await;
        match (&answer, &token) {
            (Err(error), _) if error.is_invalid_token() => {
                self.attempts.failed(address, token.as_ref()).await;
            }
            (Ok(_), Some(token)) => self.attempts.accepted(token).await,
            (Ok(_) | Err(_), _) => {}
        }
        answer
    }
}
