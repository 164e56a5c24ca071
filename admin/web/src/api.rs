//! The admin API: `petstore.admin.v1.AdminService` as JSON, for the admin port. Its paths, parameters, bodies
//! and OpenAPI document are derived from the descriptors of that service, so a new method needs no code here.
//!
//! The core authenticates the operator and decides what it may do. The gateway forwards the token. Only the
//! limits of an account come from the gateway itself, from the limiter in use. They are shown to operators to
//! which the core shows the account. The keys in a text are hashed here, and only their digests sent on. CSV
//! is made here of the pages of a list.

mod call;
mod composed;
mod error;
mod json;
mod method;
mod openapi;
#[cfg(test)]
mod tests;

use std::{net::IpAddr, sync::Arc};

use axum::{
    Extension, Router,
    extract::{RawPathParams, Request, State, rejection::RawPathParamsRejection},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::{MethodFilter, get, on, post},
};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use http_body::Body as _;
use petstore_core_client::{CoreTransport, TracedTransport};
use petstore_gateway::{
    ApiError, Gateway, X_REQUEST_ID, check_head, error_response, json_response,
    representation::Representation, request_body,
};
use petstore_telemetry::abandoned::caller_has_left;
use prost_reflect::DynamicMessage;
use tokio::{sync::Semaphore, time::timeout};

pub(crate) use self::{call::CallRecord, openapi::document as openapi_document};
pub use self::{
    call::call_admin,
    composed::{USAGE_CSV_HEAD, find_requests, findings, usage_csv},
    error::admin_reason,
};
use self::{
    call::{CALL_TIMEOUT, call, client, credentials},
    error::AdminApiError,
    method::{AdminMethod, Binding},
};

/// Maximum number of concurrent calls of operators. Others wait, because they share the connection to the
/// core with clients.
const MAX_CALLS: usize = 32;

/// State that the handlers share.
pub(crate) struct AdminState {
    gateway: Gateway,
    calls: Semaphore,
}

/// Returns the admin API, below `/admin/v1`.
pub(crate) fn api(state: Arc<AdminState>) -> Router {
    let mut router = Router::new();
    for (method, binding) in method::bindings() {
        let Ok(filter) = MethodFilter::try_from(binding.http_method.clone()) else { continue };
        let path = binding.path.clone();
        let handler = on(filter, async move |state, path_params, request| {
            answer(state, path_params, request, &method, &binding).await
        });
        router = router.route(&path, handler);
    }
    let document =
        Representation::new(StatusCode::OK, "application/json", || openapi::document().to_string());
    let document = get(async move |headers: HeaderMap| document.answer(&headers));
    router
        .route(composed::FIND_KEYS_PATH, post(composed::find_keys))
        .route(composed::LIMITS_PATH, get(composed::get_limits))
        .route(composed::USAGE_CSV_PATH, get(composed::get_usage_csv))
        .route("/admin/v1/openapi.json", document)
        .fallback(async || AdminApiError::from(ApiError::RouteNotFound))
        .method_not_allowed_fallback(async || ([(header::CACHE_CONTROL, "no-store")], method_not_allowed()))
        .with_state(state)
}

/// Returns the refusal of a method that a path of the admin port does not support.
pub fn method_not_allowed() -> Response {
    let message = "this path does not support this method";
    error_response(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
}

/// Returns each method of the admin API with the request that query and body describe, or all faults.
#[cfg(feature = "fuzzing")]
pub fn fuzz_requests(query: &str, body: &[u8]) -> Vec<(String, Result<DynamicMessage, String>)> {
    static BINDINGS: std::sync::LazyLock<Vec<(AdminMethod, Binding)>> =
        std::sync::LazyLock::new(method::bindings);
    let read = |(method, binding): &(AdminMethod, Binding)| {
        let request = binding.message(method, &[], query, body);
        (method.name().to_owned(), request.map_err(|error| error.to_string()))
    };
    BINDINGS.iter().map(read).collect()
}

/// Answers a request of an operator: names it, and writes one line of the log when `next` has answered it.
/// Everything that can refuse the request belongs in `next`.
pub async fn answer_operator(gateway: &Gateway, mut request: Request, next: Next) -> Response {
    let request_id = gateway.name_request(request.headers());
    request.headers_mut().insert(X_REQUEST_ID, request_id.clone());
    let client = client(gateway, request.headers(), request.extensions());
    let is_of_api = request.uri().path().starts_with("/admin/");
    // The longest standard one has 7 characters. A longer one may be a key.
    let http_method = Some(request.method().clone()).filter(|method| method.as_str().len() <= 7);
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_REQUEST_ID, request_id.clone());
    let record: Option<CallRecord> = response.extensions_mut().remove();
    // Pages and assets of the console leave no line.
    if is_of_api || record.is_some() || response.status().as_u16() >= 400 {
        let CallRecord { operator, method, subject } = record.unwrap_or_default();
        tracing::info!(
            target: "petstore_gateway::admin",
            operator,
            subject,
            method = method.as_deref().or(http_method.as_ref().map(Method::as_str)),
            status = response.status().as_u16(),
            client = %client.to_canonical(),
            client_left = caller_has_left().then_some(true),
            request_id = request_id.to_str().unwrap_or_default(), // always ASCII
            "handled an operator's request"
        );
    }
    response
}

/// Forwards a request to the admin port if its head is one that REST accepts (docs/contract.md, 10.3).
pub async fn check_operators_head(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match check_head(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => AdminApiError::from(error).into_response(),
    }
}

/// Returns the request with its whole body in memory, for the handlers of the admin port, which then need no
/// bounds for reading it.
///
/// # Errors
/// If the body is too large, too late or broken. The error is the response with its Error body.
pub async fn with_whole_body(request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    let body = request_body::read(body).await.map_err(|error| AdminApiError::from(error).into_response())?;
    Ok(Request::from_parts(parts, body.into()))
}

/// Parameters in the path of a request.
type PathParams = Result<RawPathParams, RawPathParamsRejection>;

/// Returns the parameters in the path.
fn in_path(params: PathParams) -> Result<RawPathParams, ApiError> {
    params.map_err(|_| ApiError::InvalidParameter("the path must be UTF-8".to_owned().into()))
}

/// Translates the request, calls the core and translates the answer.
async fn answer(
    State(state): State<Arc<AdminState>>,
    path_params: PathParams,
    request: Request,
    method: &AdminMethod,
    binding: &Binding,
) -> Response {
    let mut record = CallRecord { method: Some(method.name().to_owned()), ..CallRecord::default() };
    let answered = async {
        let credentials = state.authenticate(request.headers(), request.extensions())?;
        let path = in_path(path_params)?;
        let path: Vec<_> = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = body_of(request, binding).await?;
        let message = binding.message(method, &path, &query, &body)?;
        let answer = state.call(method, &message, &credentials, &mut record).await?;
        let mut body = json::body(&answer, binding.response_body.as_deref());
        if method.name() == "ExplainRefusal" {
            composed::add_limits(&state, &mut body).await;
        }
        Ok(body.to_string())
    };
    finished(method.success_status(), answered.await, record)
}

/// Returns the body of a request; empty if there is none and none is expected.
async fn body_of(request: Request, binding: &Binding) -> Result<Bytes, ApiError> {
    let is_read = binding.body.is_some() || !request.body().is_end_stream();
    if is_read { request_body::read_json(request).await } else { Ok(Bytes::new()) }
}

/// Completes an answer. It is not cacheable: it belongs to one operator, and may hold a new key.
fn finished(status: StatusCode, answered: Result<String, AdminApiError>, record: CallRecord) -> Response {
    let response = answered.map_or_else(AdminApiError::into_response, |body| json_response(status, body));
    ([(header::CACHE_CONTROL, "no-store")], Extension(record), response).into_response()
}

/// Records that the admin whose token a request carries changes the log filter of this process, and returns
/// the admin's name.
///
/// # Errors
///
/// If the request has no such token, or the change cannot be recorded. The error is the response to send.
pub async fn record_log_level(
    core: CoreTransport,
    headers: &HeaderMap,
    peer: IpAddr,
    [before, after]: [&str; 2],
) -> Result<String, Response> {
    let recorded = async {
        let credentials = credentials(headers, peer)?;
        let method = AdminMethod::find("RecordLogLevel").ok_or(ApiError::Internal)?;
        let message = method.read(&serde_json::json!({ "before": before, "after": after }));
        let (message, mut record) = (message.map_err(|_| ApiError::Internal)?, CallRecord::default());
        call(&TracedTransport::from(core), &method, &message, &credentials, &mut record).await?;
        Ok(record.operator.unwrap_or_default())
    };
    recorded.await.map_err(AdminApiError::into_response)
}

impl AdminState {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        Self { gateway: gateway.clone(), calls: Semaphore::new(MAX_CALLS) }
    }

    /// Returns the operator's token, which the core will judge, and the address that the request came from.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        extensions: &http::Extensions,
    ) -> Result<HeaderMap, AdminApiError> {
        credentials(headers, client(&self.gateway, headers, extensions))
    }

    /// Calls the method for the operator.
    async fn call(
        &self,
        method: &AdminMethod,
        message: &DynamicMessage,
        credentials: &HeaderMap,
        record: &mut CallRecord,
    ) -> Result<DynamicMessage, AdminApiError> {
        record.note(method, message);
        let permit = timeout(CALL_TIMEOUT, self.calls.acquire()).await;
        let _permit = permit.map_err(|_| ApiError::DeadlineExceeded)?; // it is never closed
        call(self.gateway.core(), method, message, credentials, record).await
    }
}
